"""`run` with a grammar, a schema, biases and log-probabilities: what comes out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import GREEDY, Call
from tests.cli.tiny_models import Models

SCHEMA = json.dumps(
    {
        "properties": {"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 5}},
        "required": ["n", "s"],
    }
)
WRONG = {
    ("--grammar", 'root ::= "a'): ('error: line 1 of the grammar: `"` is missing',),
    ("--grammar", ""): ("no rule `root`",),
    ("--grammar-file", "./none.gbnf"): ("cannot read the grammar ./none.gbnf: No such file",),
    ("--json-schema", "./none.json"): ("cannot read the JSON schema ./none.json",),
    ("--json-schema", "{"): ("the JSON schema is not JSON", "line 1, column 2"),
    ("--json-schema", '{"minProperties": 1}'): ("at #: `minProperties` is not supported",),
    ("--json-schema", '{"type": "text"}'): ('at #: "text" is not a type',),
    ("--json-schema", "false"): ("at #: false is not a schema that anything can satisfy",),
    ("--json-schema", "[1]"): ("[1] is not a schema",),
    ("--json-schema", '{"items": {"$ref": "#/x"}}'): ("at #/items", '"#/x" points to nothing'),
    ("--json-schema", '{"$ref": "http://x.y/z"}'): ("points outside the schema",),
    ("--json-schema", '{"$ref": "#"}'): ("can begin with itself",),
    ("--json-schema", '{"required": [3]}'): ("`required` lists 3",),
    ("--json-schema", '{"properties": 3}'): ("`properties` is 3",),
    ("--json-schema", '{"type":"string","pattern":"a(?=b)"}'): ("look-around",),
    ("--json-schema", '{"type":"string","minLength":9000}'): ("`minLength` is 9000", "2000"),
    ("--json-schema", '{"type":"number","maximum":1}'): ("bounds of a `number`",),
    ("--json-schema", '{"type":"integer","minimum":3,"maximum":1}'): ("no integer",),
    ("--json-schema", '{"minItems":3,"maxItems":1}'): ("at least 3 and at most 1",),
    ("--json-schema", '{"enum": []}'): ("no value to choose from",),
    ("--json-schema", '{"anyOf": []}'): ("nothing to choose from",),
    ("--json-schema", '{"enum": [1e999]}'): ("has the number 1e999, which is too large",),
    ("--json-schema", '{"type":"integer","minimum":-1e999}'): ("-1e999, which is too large",),
    ("--json-schema", '{"const": %s}' % ("9" * 5000)): ("a number of too many digits",),
    ("--json-schema", "[" * 5000 + "]" * 5000): ("nested too deeply",),
    ("--grammar", 'root ::= "a"', "--json-schema", "{}"): ("exclude each other",),
    ("--grammar", 'root ::= "a"', "--ignore-eos"): ("leaves a grammar no way to end",),
    ("--logit-bias", "x+1"): ("--logit-bias is `x+1`", "--logit-bias 151645-inf"),
    ("--logit-bias", "5"): ("--logit-bias is `5`",),
    ("--logit-bias", "5+inf"): ("gives token 5 the bias inf",),
    ("--logit-bias", "5+1e39"): ("gives token 5 the bias 1e+39", "from -1e+06 to 1e+06"),
    ("--logit-bias", "99999+1"): ("--logit-bias names token 99999", "end at 319"),
    ("--logprobs", "3"): ("--logprobs has no place in plain text", "`--json` or `--jsonl`"),
    ("--logprobs", "21", "--json"): ("--logprobs is 21, but must be from 0 to 20",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "fragments"), WRONG.items(), ids=[" ".join(options)[:40] for options in WRONG]
)
def test_a_wrong_option_is_one_line(
    call: Call, models: Models, options: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    run = call("run", "hello", "-n", "2", *models.pair, *options)
    run.fails(2, *fragments)
    errors = [line for line in run.stderr.splitlines() if not line.startswith("hint: ")]
    assert errors[-1].startswith("error: ") and len(errors) <= 2


def test_a_schema_makes_every_answer_valid_json(call: Call, models: Models, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(SCHEMA)
    for seed in range(5):
        how = ("--temp", "1.5", "--seed", str(seed), "-q", "-k", "3", *models.pair)
        run = call("run", "hello", "--json-schema", file, *how)
        value = json.loads(run.stdout)
        assert isinstance(value["n"], int) and len(value["s"]) <= 5
        assert (run.exit_code, run.stderr) == (0, "")
        assert call("run", "hello", "--json-schema", SCHEMA, *how).stdout == run.stdout
        assert (
            call("run", "hello", "--json-schema", SCHEMA, *how, "--no-draft").stdout == run.stdout
        )


def test_a_grammar_from_a_file_is_that_of_the_option(
    call: Call, models: Models, tmp_path: Path
) -> None:
    grammar = 'root ::= "hello" | "the" [0-9]{3}\n'
    file = tmp_path / "x.gbnf"
    file.write_text(grammar)
    args = ("run", "hi", "--temp", "0", "-q", *models.pair)
    run = call(*args, "--grammar-file", file)
    assert run.stdout == call(*args, "--grammar", grammar).stdout
    assert run.stdout.decode().strip() in ("hello", *(f"the{i:03}" for i in range(1000)))


def test_a_cut_answer_is_reported(call: Call, models: Models) -> None:
    run = call(*GREEDY, "-n", "3", *models.pair, "--json-schema", SCHEMA)
    assert "the answer was cut after 3 tokens, before its grammar ends" in run.stderr
    cut = call(*GREEDY, "-n", "3", *models.pair, "--json-schema", SCHEMA, "--jsonl").events
    assert cut[-1]["finish_reason"] == "length"
    warnings = [e for e in cut if e["event"] == "notice" and e["level"] == "warning"]
    assert len(warnings) == 1


def test_logprobs_have_the_shape_of_the_openai_api(call: Call, models: Models) -> None:
    args = (*GREEDY, "-n", "12", *models.pair, "-k", "3", "--logprobs", "2")
    whole = call(*args, "--json").json
    content = whole["logprobs"]["content"]
    assert [item["id"] for item in content] == whole["tokens"]
    assert "".join(item["token"] for item in content) == whole["text"]
    for item in content:
        assert item.keys() == {"token", "id", "logprob", "bytes", "top_logprobs"}
        assert bytes(item["bytes"]).decode() == item["token"]
        first, second = item["top_logprobs"]
        assert first == {key: item[key] for key in first}  # greedy takes the likeliest
        assert second["logprob"] <= first["logprob"] <= 0
    lines = call(*args, "--jsonl").events
    parts = [event["content"] for event in lines if event["event"] == "logprobs"]
    assert len(parts) == lines[-1]["speculative"]["num_rounds"]
    assert [item for part in parts for item in part] == content
    assert call(*GREEDY, "-n", "2", *models.pair, "--json").json["logprobs"] is None


def test_a_bias_is_told_and_works(call: Call, models: Models) -> None:
    args = (*GREEDY, "-n", "8", *models.pair, "--json", "--logit-bias", "65+100")
    run = call(*args, "--logit-bias", "66-inf").json
    assert run["tokens"] == [65] * 8
    assert run["sampling"]["logit_bias"] == {"65": 100.0, "66": None}
