"""Suites that look at the same networks ask for the same fits, so that these are trained once."""

import pytest

from routebench.engine.suites import Choices, load_suite, plan


@pytest.mark.parametrize("suite", ["sparsity", "robustness"])
@pytest.mark.parametrize("preset", ["smoke", "quick", "full"])
def test_a_suite_that_reads_networks_reads_those_that_accuracy_trains(suite, preset, no_data):
    requests = {
        name: [cell.request() for cell in plan(load_suite(name), preset, Choices()).cells]
        for name in ("accuracy", suite)
    }
    shared = [request for request in requests[suite] if "intermediate" not in request.model]
    assert shared
    assert all(request in requests["accuracy"] for request in shared)


@pytest.mark.parametrize("suite", ["sparsity", "robustness", "equivariance"])
def test_a_preset_with_the_entries_of_another_suite_reads_its_networks(suite, no_data):
    own = plan(load_suite(suite), "standard", Choices())
    trained = plan(load_suite("standard"), "full", Choices())
    requests, labels = [cell.request() for cell in trained.cells], {cell.label for cell in trained.cells}
    shared = [cell for cell in own.cells if cell.label in labels]
    assert all(cell.request() in requests for cell in shared)
    assert {cell.label for cell in shared} == labels > {"heinsen", "static", "cnn"}
    further = {cell.label for cell in own.cells} - labels  # a control of its own, which the other suite lacks
    assert further == ({"cnn-p4"} if suite == "equivariance" else set())
    assert own.suite.protocol == suite


@pytest.mark.parametrize("preset", ["smoke", "quick", "full"])
def test_linear_probe_reads_the_networks_that_accuracy_trains(preset, no_data):
    requests = {
        name: [cell.request() for cell in plan(load_suite(name), preset, Choices(seeds=range(1))).cells]
        for name in ("accuracy", "linear-probe")
    }
    own = [request for request in requests["linear-probe"] if request.recipe.loss == "own"]
    capsules = "generative-capsules" if preset == "full" else "generative-capsules-small"
    assert {request.model for request in own} >= {"vae", "top-down-capsules", capsules}
    of_scae = {request.model for request in own if request.model.startswith("scae")}
    assert of_scae == {"scae" if preset == "full" else "scae-small"}  # of the two the one that the suite places there
    assert all(request.recipe.reconstruction == 0 for request in own)
    shared = [request for request in requests["linear-probe"] if request not in own]
    assert shared
    assert all(request in requests["accuracy"] for request in shared)


def test_reconstruction_without_its_decoder_reads_the_networks_that_accuracy_trains():
    requests = {
        name: [cell.request() for cell in plan(load_suite(name), "smoke", Choices()).cells]
        for name in ("accuracy", "reconstruction")
    }
    plain = [request for request in requests["reconstruction"] if request.model == "capsnet-small"]
    decoded = [request for request in requests["reconstruction"] if request.model == "capsnet-small-reconstruction"]
    assert len(plain) == len(decoded) > 3
    assert all(request in requests["accuracy"] for request in plain)
    assert {request.recipe.reconstruction for request in plain} == {0.0}
    assert {request.recipe.reconstruction for request in decoded} == {0.0005}


@pytest.mark.parametrize(
    ("preset", "read"), [("smoke", "accuracy"), ("quick", "reconstruction"), ("full", "reconstruction")]
)
def test_kiefer_sparsity_reads_networks_that_another_suite_trains(preset, read, no_data):
    own, others = (
        [cell.request() for cell in plan(load_suite(name), preset, Choices()).cells]
        for name in ("kiefer-sparsity", read)
    )
    assert len(own) > 3
    assert all(request in others for request in own)


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_suites_of_generative_capsules_share_their_fits(preset, no_data):
    suites = ("smith-probes", "smith-inference", "linear-probe")
    requests = {
        name: [cell.request() for cell in plan(load_suite(name), preset, Choices(seeds=range(1))).cells]
        for name in suites
    }
    own = [one for one in requests["smith-probes"] if one.model != "vae" and not one.model_params]
    names = {request.model for request in own}
    assert len(names) == len(own) == 3
    for suite in suites[1:]:
        plain = [one for one in requests[suite] if one.model in names and not one.model_params]
        assert plain and all(request in own for request in plain), suite
