"""Types and documentation of what the package shows. (`ci/test` runs mypy and stubtest.)"""

import inspect
from importlib import resources

import hcomm
import pytest
from hcomm import calls, communicator, config, errors, ops, overlap, profiling, work

MODULES = [hcomm, calls, communicator, config, errors, ops, overlap, profiling, work]


def shown(module):
    """Its public classes and functions, and the public methods of those classes, by name."""
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        if not getattr(value, "__module__", "").startswith("hcomm"):
            continue
        yield f"{module.__name__}.{name}", value
        if inspect.isclass(value):
            for method, inner in vars(value).items():
                if not method.startswith("_") and (callable(inner) or isinstance(inner, property)):
                    yield f"{module.__name__}.{name}.{method}", inner


def test_py_typed_is_there():
    assert resources.files("hcomm").joinpath("py.typed").is_file()
    assert resources.files("hcomm").joinpath("_native.pyi").is_file()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_everything_has_a_docstring(module):
    assert module.__doc__
    names = dict(shown(module))
    assert names
    assert [name for name, value in names.items() if not (inspect.getdoc(value) or "").strip()] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_function_is_annotated(module):
    missing = []
    for name, value in shown(module):
        function = value.fget if isinstance(value, property) else value
        if not inspect.isfunction(function):
            continue
        signature = inspect.signature(function)
        parameters = [each for each in signature.parameters.values() if each.name != "self"]
        if signature.return_annotation is inspect.Signature.empty or any(each.annotation is inspect.Parameter.empty for each in parameters):
            missing.append(name)
    assert missing == []


def test_version():
    assert hcomm.__version__.count(".") == 2


def test_the_names_that_were_promised():
    for name in (
        "init all_reduce all_reduce_async overlap_scope enable_profiling get_profile_stats enable_gpu_direct plan split group HcommError"
    ).split():
        assert callable(getattr(hcomm, name)), name
    for name in ("set_chunk_size", "set_precision"):
        assert callable(getattr(config, name)), name
