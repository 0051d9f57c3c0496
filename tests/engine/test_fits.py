"""Trained models from the store."""

from dataclasses import replace

import torch

from routebench.engine.fits import StoreContext, fit_key
from routebench.kernels import using
from routebench.models.network import routing_methods


def request_of(made):
    return next(cell for cell in made.cells if cell.identity["iterations"] == 2).request()


def test_a_fit_is_trained_with_the_iterations_that_are_asked_for(made, store):
    request = request_of(made)
    other = replace(request, iterations=5)
    assert fit_key(request) != fit_key(other)
    context = StoreContext(store, torch.device("cpu"))
    for wanted in (request, other):
        (routing,) = routing_methods(context.fit(wanted).network)
        assert routing.iterations == wanted.iterations


def test_a_second_call_loads_what_the_first_one_trained(made, store):
    request, told = request_of(made), []
    first = StoreContext(store, torch.device("cpu"), told.append).fit(request)
    trained = len(told)
    second = StoreContext(store, torch.device("cpu"), told.append).fit(request)
    assert trained > 0
    assert len(told) == trained
    weights = second.network.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in first.network.state_dict().items())
    assert first.epochs == second.epochs


def test_a_fit_remembers_the_back_end_that_trained_it(made, store):
    request = request_of(made)
    with using("reference"):
        StoreContext(store, torch.device("cpu")).fit(request)
    later = StoreContext(store, torch.device("cpu"))
    later.fit(request)
    assert later.backends == {"reference"}
