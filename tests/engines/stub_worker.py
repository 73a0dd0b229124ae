"""Is a worker without a model for Aphrodite, whose packages are built for CUDA alone: HTTP server, scheduler, prefix
cache, detokenizer and metrics are the engine's, and the tokens are made up (stub_tokens.py).

The engine loads it by name (--worker-cls stub_worker.StubWorker) with this folder in PYTHONPATH."""
import time

import numpy
import torch
from aphrodite.v1.kv_cache_interface import FullAttentionSpec
from aphrodite.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, LogprobsLists, ModelRunnerOutput
from aphrodite.v1.worker.worker_base import CompilationTimes, WorkerBase

from stub_tokens import FIRST_WORD, STEP, Tokens


class Request:
    def __init__(self, new, vocabulary):
        self.prompt, self.computed = len(new.prompt_token_ids), new.num_computed_tokens
        self.sampling = new.sampling_params
        seed = self.sampling.seed if self.sampling.temperature else None
        self.tokens = Tokens(seed, new.prompt_token_ids, vocabulary)


class StubWorker(WorkerBase):
    def init_device(self):
        self.requests, self.scheduled = {}, None

    def load_model(self, **_):
        pass

    def get_kv_cache_spec(self):
        size = self.cache_config.block_size or 16
        return {"layer": FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=64, dtype=torch.bfloat16)}

    def get_supported_kv_cache_layouts(self):
        return ["LBNHC"]

    def determine_available_memory(self):
        return 2**24

    def initialize_from_config(self, _):
        pass

    def compile_or_warm_up_model(self):
        return CompilationTimes(0, 0)

    def get_supported_tasks(self):
        return ("generate",)

    def execute_model(self, scheduled):
        """Answers None: the engine asks for the tokens next."""
        for request in scheduled.finished_req_ids:
            self.requests.pop(request, None)
        for new in scheduled.scheduled_new_reqs:
            self.requests[new.req_id] = Request(new, self.model_config.get_vocab_size())
        cached = scheduled.scheduled_cached_reqs
        for request, computed in zip(cached.req_ids, cached.num_computed_tokens):
            self.requests[request].computed = computed
        if not scheduled.num_scheduled_tokens:
            return EMPTY_MODEL_RUNNER_OUTPUT
        self.scheduled = scheduled.num_scheduled_tokens
        return None

    def sample_tokens(self, grammar):
        time.sleep(STEP)
        allowed = {}
        for request, mask in zip(grammar.structured_output_request_ids, grammar.grammar_bitmask) if grammar else ():
            allowed[request] = numpy.flatnonzero(numpy.unpackbits(mask.view(numpy.uint8), bitorder="little")).tolist()
        names, sampled = list(self.scheduled), []
        for name, tokens in self.scheduled.items():
            request = self.requests[name]
            whole = request.computed + tokens >= request.prompt + request.tokens.made  # Else a part of the prompt.
            sampled.append([request.tokens.next(allowed.get(name))] if whole else [])
        return ModelRunnerOutput(req_ids=names, req_id_to_index={name: at for at, name in enumerate(names)},
                                 sampled_token_ids=sampled, logprobs=self.logprobs(names, sampled),
                                 prompt_logprobs_dict=dict.fromkeys(names), pooler_output=[])

    def logprobs(self, names, sampled):
        """Returns what the engine reports as logprobs: as many columns as the request that wants most of them."""
        wanted = [self.requests[name].sampling.logprobs for name in names]
        if not any(number is not None for number in wanted):
            return None
        columns = 1 + max(number or 0 for number in wanted)
        tokens = numpy.arange(columns, dtype=numpy.int32) + FIRST_WORD
        rows = numpy.tile(tokens, (len(names), 1))
        rows[:, 0] = [tokens[0] if tokens else 0 for tokens in sampled]
        values = numpy.tile(-0.5 - numpy.arange(columns, dtype=numpy.float32), (len(names), 1))
        return LogprobsLists(rows, values, numpy.ones(len(names), dtype=numpy.int32))
