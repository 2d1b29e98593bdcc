"""`/tokenize` and `/detokenize`, in vLLM's shapes."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request

from serving.api.body import parse_body, read_body
from serving.api.no_ops import refuse_unsupported
from serving.api.openapi import describes_body
from serving.api.requests import DetokenizeRequest, TokenizeRequest
from serving.api.responses import Text, TokenList
from serving.api.routes import authenticate, service_of
from serving.errors import RequestError
from serving.router.model import PromptIds, ServedModel

router = APIRouter(dependencies=[Depends(authenticate)])


@router.post("/tokenize", openapi_extra=describes_body(TokenizeRequest))
async def tokenize(request: Request) -> TokenList:
    """The tokens of a text, or of a conversation by the model's template."""
    service = service_of(request)
    await service.connected()
    body = parse_body(TokenizeRequest, await read_body(request, service.config.router.max_body_bytes))
    refuse_unsupported(body)
    model = service.model_named(body.model)
    tokens = await _tokens(model, body)
    return {
        "count": len(tokens),
        "max_model_len": model.card.max_model_len,
        "tokens": list(tokens),
        "token_strs": model.token_names(tokens) if body.return_token_strs else None,
    }


@router.post("/detokenize", openapi_extra=describes_body(DetokenizeRequest))
async def detokenize(request: Request) -> Text:
    """The text of tokens, special ones included."""
    service = service_of(request)
    await service.connected()
    body = parse_body(DetokenizeRequest, await read_body(request, service.config.router.max_body_bytes))
    model = service.model_named(body.model)
    model.check_vocabulary(body.tokens, "tokens")
    return {"prompt": await model.decode_all(body.tokens)}


async def _tokens(model: ServedModel, body: TokenizeRequest) -> PromptIds:
    if (body.prompt is None) == (body.messages is None):
        raise RequestError("send either prompt or messages", "prompt")
    if body.messages is None:
        assert body.prompt is not None
        if body.add_generation_prompt is not None:
            raise RequestError("add_generation_prompt needs messages", "add_generation_prompt")
        return await model.encode(body.prompt, add_special_tokens=body.add_special_tokens is not False)
    return await model.encode(
        model.render(
            [message.for_template() for message in body.messages],
            add_generation_prompt=body.add_generation_prompt is not False,
        ),
        add_special_tokens=bool(body.add_special_tokens),
    )
