"""The signature and docstring of attach() and docs/runtime.md match the table of settings."""

import inspect
import re
from pathlib import Path

import neuron_fabric as nf
import pytest
from neuron_fabric.settings import TABLE, Setting, Settings

RUNTIME = Path(__file__).parents[2] / "docs" / "runtime.md"


def row(setting: Setting) -> str:
    """The row of docs/runtime.md."""
    values = re.sub(r"^one of (.*)$", lambda found: ", ".join(f"`{word}`" for word in found[1].split(", ")),
                    setting.values)
    return f"| `{setting.name}` | `{setting.default!r}` | {values} | {setting.help} |"


def test_the_signature_of_attach_has_the_names_types_and_defaults_of_the_table():
    parameters = list(inspect.signature(nf.attach).parameters.values())
    assert parameters[0].name == "model"
    assert [(one.name, one.default, one.annotation) for one in parameters[1:]] == [
        (setting.name, setting.default, setting.type) for setting in TABLE]


def test_the_docstring_of_attach_describes_every_setting():
    for setting in TABLE:
        assert f"    {setting.name}: " in nf.attach.__doc__


def test_the_docs_have_the_rows_of_the_table():
    """If this fails, replace the table under "Settings" by these rows."""
    text = RUNTIME.read_text()
    section = text[text.index("\n## Settings\n"):]
    section = section[:section.index("\n## ", 1)]
    found = [line for line in section.splitlines() if line.startswith("| `")]
    assert found == [row(setting) for setting in TABLE]


def test_the_defaults_are_valid(monkeypatch):
    monkeypatch.delenv("NF_RUN_DIR", raising=False)
    settings = Settings()
    for setting in TABLE:
        assert getattr(settings, setting.name) == setting.default


@pytest.mark.parametrize("setting", [one for one in TABLE if one.check], ids=lambda one: one.name)
def test_a_value_of_another_type_is_rejected_by_name(setting):
    class Other:
        pass

    with pytest.raises(setting.error, match=f"{setting.name} must be "):
        Settings(**{setting.name: Other()})
