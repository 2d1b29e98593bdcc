"""The model's template decides the prompt; neither it nor the messages can reach outside the sandbox."""

from __future__ import annotations

import pytest
from tiny_tokenizers import CHATML

from serving.errors import ModelLoadError, RequestError
from serving.router.chat_template import ChatTemplate

USER = [{"role": "user", "content": "Hi"}]


def render(source: str, messages: list[dict[str, str]] = USER) -> str:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").render(messages)


def test_chatml() -> None:
    messages = [{"role": "system", "content": "Be brief."}, *USER]
    assert render(CHATML, messages) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", "<s>Hi</s>"),
        ("{% if tools %}tools{% endif %}{% if add_generation_prompt %}go{% endif %}", "go"),
        ("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "Hi"}'),
        ("{{ '<é>' | tojson }}", '"<é>"'),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "Hi"),
        ("{{ strftime_now('%Y') | length }}", "4"),
    ],
)
def test_what_templates_rely_on(source: str, expected: str) -> None:
    assert render(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages.append('x') }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages[5].content.x }}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_refusal_names_the_messages(source: str) -> None:
    with pytest.raises(RequestError) as caught:
        render(source)
    assert caught.value.param == "messages"


def test_the_templates_reason_reaches_the_caller() -> None:
    with pytest.raises(RequestError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_a_broken_template_is_no_model() -> None:
    with pytest.raises(ModelLoadError, match="does not parse"):
        render("{% if %}")
