"""Inspect AI evaluates conversations of ours: samples from a session file and from a request, on its mock model.

Runs in the environment of bench/envs/inspect.lock, with our package on the path: `make interop`.
"""

import json
import tempfile
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

import interlingua as il
from interlingua.testing.evaluation import inspect_sample, inspect_samples

REQUEST = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 100,
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Is it raining in Oslo?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "rain", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "off", "is_error": True}]},
    ],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with il.Session.open("s", home=folder) as session:
            session.append(il.UserMessage("What is 2 + 2?"))
            session.append(il.AssistantMessage("4"))
            samples = [inspect_sample(session, id="session")]
        file = Path(folder) / "request.json"
        file.write_text(json.dumps(REQUEST))
        samples += inspect_samples([file])
        assert ["user"] == [message.role for message in samples[0].input]
        assert ["system", "user", "assistant", "tool"] == [message.role for message in samples[1].input]
        # With a usage of their own, Inspect downloads no tokenizer to count.
        answers = [ModelOutput.from_content("mock", "4"), ModelOutput.from_content("mock", "I cannot say.")]
        for answer in answers:
            answer.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        task = Task(dataset=samples, solver=generate(), scorer=match())
        (log,) = eval(
            task,
            model=get_model("mockllm/model", custom_outputs=answers),
            log_dir=folder,
            display="none",
            max_samples=1,
        )
        assert log.status == "success", log.error and log.error.message
        assert {"session": "C"} == {s.id: s.scores["match"].value for s in log.samples if s.id == "session"}
        read = list(il.read(log.location.removeprefix("file://")))
        assert 2 == len(read)
        assert "4" == read[0].messages[-1].text
    print("inspect-ai: two samples made, evaluated, and the log read back")


if __name__ == "__main__":
    main()
