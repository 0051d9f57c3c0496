"""The registries that there are."""

from routebench.registry.kinds import fault_of_function, fault_of_method, fault_of_model, fault_of_protocol
from routebench.registry.names import Registry

routing = Registry("routing method", "routebench.routing", fault=fault_of_method)
models = Registry("model", "routebench.models", fault=fault_of_model, also=["routebench.generative"])
datasets = Registry("data set", "routebench.data", fault=fault_of_function)
protocols = Registry("protocol", "routebench.protocols", fault=fault_of_protocol)
analyses = Registry("analysis", "routebench.analyses", fault=fault_of_function, shipped_as_files=True)

EVERY = {"methods": routing, "models": models, "data": datasets, "protocols": protocols, "analyses": analyses}
