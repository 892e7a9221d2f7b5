"""The fields that OpenAI's two APIs take, with their types (types of the openai SDK 3.54, 2026-11)."""

from __future__ import annotations

from collections.abc import Mapping

Types = tuple[type, ...]

_NUMBER: Types = (int, float)
_SHARED: Mapping[str, Types] = {
    "model": (str,),
    "metadata": (dict,),
    "moderation": (dict,),
    "parallel_tool_calls": (bool,),
    "prompt_cache_key": (str,),
    "prompt_cache_options": (dict,),
    "prompt_cache_retention": (str,),
    "safety_identifier": (str,),
    "service_tier": (str,),
    "store": (bool,),
    "stream": (bool,),
    "stream_options": (dict,),
    "temperature": _NUMBER,
    "tool_choice": (str, dict),
    "tools": (list,),
    "top_logprobs": (int,),
    "top_p": _NUMBER,
    "user": (str,),
}
FIELDS: Mapping[str, Mapping[str, Types]] = {
    "chat": {
        **_SHARED,
        "messages": (list,),
        "audio": (dict,),
        "frequency_penalty": _NUMBER,
        "function_call": (str, dict),
        "functions": (list,),
        "logit_bias": (dict,),
        "logprobs": (bool,),
        "max_completion_tokens": (int,),
        "max_tokens": (int,),
        "modalities": (list,),
        "n": (int,),
        "prediction": (dict,),
        "presence_penalty": _NUMBER,
        "reasoning_effort": (str,),
        "response_format": (dict,),
        "seed": (int,),
        "stop": (str, list),
        "verbosity": (str,),
        "web_search_options": (dict,),
    },
    "responses": {
        **_SHARED,
        "input": (str, list),
        "access_programs": (dict,),
        "background": (bool,),
        "background_options": (dict,),
        "context_management": (list,),
        "conversation": (str, dict),
        "image": (dict,),
        "include": (list,),
        "instructions": (str,),
        "max_output_tokens": (int,),
        "max_tool_calls": (int,),
        "previous_response_id": (str,),
        "prompt": (dict,),
        "reasoning": (dict,),
        "text": (dict,),
        "truncation": (str,),
    },
}
"""Fields by API; types of each, none where any is taken."""
