"""Runs SGLang's server with a scheduler that has no model, because its packages are built for CUDA alone: HTTP server,
tokenizer, detokenizer and their metrics are SGLang's, and the tokens are made up (stub_tokens.py). It takes SGLang's
options, and the tokenizer that stands in the folder of the model."""
import array
import sys
import time
from pathlib import Path

import zmq
from sglang.srt.managers import io_struct as io
from sglang.srt.managers import load_snapshot
from sglang.srt.managers.scheduler import SpawnRanks, spawn_world_rank
from sglang.srt.runtime_context import publish
from sglang.srt.utils.network import get_zmq_socket
from tokenizers import Tokenizer

from stub_tokens import FIRST_WORD, STEP, Tokens

RUNNING, QUEUED, CONTEXT, KV_TOKENS = 16, 64, 2048, 16384
CALL = '[{"name": "look", "parameters": {"place": "river"}}]'  # The answer where a grammar is asked for.
GAUGES = ("num_running_reqs", "num_queue_reqs", "token_usage", "num_used_tokens", "max_total_num_tokens")

# What a server that was killed leaves behind stays in its own folder. Each of its processes loads this file.
in_shared_memory = load_snapshot.shm_path_for
load_snapshot.shm_path_for = lambda name: str(Path.cwd() / Path(in_shared_memory(name)).name)


def abort(message, status=None, kind=None):
    return {"type": "abort", "message": message, "status_code": status, "err_type": kind}


class Sequence:
    def __init__(self, request, tokenizer):
        self.request, self.sampling, self.prompt = request, request.sampling_params, list(request.input_ids)
        self.output, self.sent, self.cached, self.aborted = [], 0, 0, False
        self.tokenizer, self.end = tokenizer, tokenizer.token_to_id("</s>")
        seed = None if self.sampling.top_k == 1 else self.sampling.sampling_seed
        self.tokens = Tokens(seed, self.prompt, tokenizer.get_vocab_size())
        has_grammar = self.sampling.json_schema or self.sampling.structural_tag
        self.script = [*tokenizer.encode(CALL).ids, self.end] if has_grammar else []

    def step(self):
        """Makes a token. Returns why the sequence ends, if it does."""
        most = self.sampling.max_new_tokens
        if self.aborted:
            return abort("Aborted")
        if len(self.output) < most:
            self.output.append(self.script.pop(0) if self.script else self.tokens.next())
        if self.output and self.output[-1] == self.end:
            return {"type": "stop", "matched": self.end}
        text = self.tokenizer.decode(self.output[-16:])
        for stop in self.sampling.stop_strs or ():
            if stop in text:
                return {"type": "stop", "matched": stop}
        return {"type": "length", "length": most} if len(self.output) >= most else None


class Scheduler:
    def __init__(self, arguments, ports):
        context = zmq.Context()
        self.requests = get_zmq_socket(context, zmq.PULL, ports.scheduler_input_ipc_name, False)
        self.to_server = get_zmq_socket(context, zmq.PUSH, ports.tokenizer_ipc_name, False)
        self.to_detokenizer = get_zmq_socket(context, zmq.PUSH, ports.detokenizer_ipc_name, False)
        self.tokenizer = Tokenizer.from_file(str(Path(arguments.model_path) / "tokenizer.json"))
        self.waiting, self.running, self.seen = [], [], []
        self.snapshot = load_snapshot.create_load_snapshot_writer(ports, 1, 0)
        from prometheus_client import Gauge  # Not before the server has said where its processes keep their figures.

        labels = {"model_name": arguments.served_model_name, "engine_type": "unified", "tp_rank": 0, "pp_rank": 0}
        self.gauges = {name: Gauge(f"sglang:{name}", name, labels, multiprocess_mode="mostrecent").labels(**labels)
                       for name in GAUGES}

    def tell_load(self):
        used = sum(len(one.prompt) + len(one.output) for one in self.running)
        load = {"num_running_reqs": len(self.running), "num_used_tokens": used, "max_total_num_tokens": KV_TOKENS,
                "token_usage": used / KV_TOKENS}
        for name, value in {**load, "num_queue_reqs": len(self.waiting)}.items():
            self.gauges[name].set(value)
        self.snapshot.write(load_snapshot.LoadSnapshot(
            timestamp=time.time(), num_waiting_reqs=len(self.waiting), max_running_requests=RUNNING,
            num_total_tokens=used, **load))

    def take(self, message):
        kind = type(message).__name__
        if kind == "BatchTokenizedGenerateReqInput":
            for one in message.batch:
                self.take(one)
        elif kind == "TokenizedGenerateReqInput":
            self.take_request(Sequence(message, self.tokenizer))
        elif kind == "AbortReq":
            for one in [*self.waiting, *self.running]:
                one.aborted |= message.abort_all or one.request.rid.startswith(message.rid)
        elif kind == "FlushCacheReqInput":
            self.seen.clear()
            io.sock_send(self.to_server, io.FlushCacheReqOutput(rid=message.rid, success=True))
        elif kind == "GetInternalStateReq":
            state = {"last_gen_throughput": 0.0, "memory_usage": {"token_capacity": KV_TOKENS},
                     "effective_max_running_requests_per_dp": RUNNING}
            io.sock_send(self.to_server, io.GetInternalStateReqOutput(rid=message.rid, internal_state=state))
        elif kind == "ShutdownReq":
            sys.exit(0)

    def take_request(self, one):
        if len(one.prompt) >= CONTEXT - 6:
            self.send([one], [abort("The input is too long.", 400, "BadRequestError")])
        elif len(self.waiting) >= QUEUED:
            io.sock_send(self.to_server, io.AbortReq(
                rid=one.request.rid, http_worker_ipc=one.request.http_worker_ipc,
                finished_reason=abort("The request queue is full.", 503)))
        else:
            self.waiting.append(one)

    def cached(self, prompt):
        """Returns how much of the prompt a sequence before it began with. The last token is always computed."""
        def shared(other):
            same = (at for at, (one, two) in enumerate(zip(prompt, other)) if one != two)
            return next(same, min(len(prompt), len(other)))

        return min(max(map(shared, self.seen), default=0), len(prompt) - 1)

    def send(self, sequences, reasons):
        """Sends what each sequence has made since the last time."""
        news = [one.output[one.sent:] for one in sequences]
        for one in sequences:
            one.sent = len(one.output)

        def of_all(name):
            return [getattr(one.sampling, name) for one in sequences]

        fields = dict.fromkeys(name for name in io.BatchTokenIDOutput.__struct_fields__ if "logprobs" in name)
        if any(one.request.return_logprob for one in sequences):
            empty = [[] for _ in sequences]
            tops = [[[new, *range(FIRST_WORD, FIRST_WORD - 1 + one.request.top_logprobs_num)] for new in made]
                    for one, made in zip(sequences, news)]
            fields |= {name: empty for name in fields
                       if name.startswith(("input", "output_token_ids")) and name.endswith(("_val", "_idx"))}
            fields |= {
                "output_token_logprobs_val": [[-0.5] * len(made) for made in news], "output_token_logprobs_idx": news,
                "output_top_logprobs_val": [[[-0.5 - at for at, _ in enumerate(top)] for top in of] for of in tops],
                "output_top_logprobs_idx": tops,
            }
        io.sock_send(self.to_detokenizer, io.BatchTokenIDOutput(
            rids=[one.request.rid for one in sequences],
            http_worker_ipcs=[one.request.http_worker_ipc for one in sequences],
            finished_reasons=reasons,
            decoded_texts=[""] * len(sequences),
            decode_ids=[array.array("q", made) for made in news],
            read_offsets=[0] * len(sequences),
            output_ids=[array.array("q", made) for made in news],
            skip_special_tokens=of_all("skip_special_tokens"),
            spaces_between_special_tokens=of_all("spaces_between_special_tokens"),
            no_stop_trim=of_all("no_stop_trim"),
            prompt_tokens=[len(one.prompt) for one in sequences],
            reasoning_tokens=[0] * len(sequences),
            completion_tokens=[len(one.output) for one in sequences],
            cached_tokens=[one.cached for one in sequences],
            retraction_counts=[0] * len(sequences),
            dp_ranks=[0] * len(sequences),
            output_token_entropy_val=None, output_token_sampling_mask=None, output_hidden_states=None,
            routed_experts=None, indexer_topk=None, placeholder_tokens_idx=None, placeholder_tokens_val=None,
            **fields))

    def step(self):
        while self.waiting and len(self.running) < RUNNING:
            one = self.waiting.pop(0)
            one.cached = self.cached(one.prompt)
            self.running.append(one)
        time.sleep(STEP)
        reasons = [one.step() for one in self.running]
        told = [(one, why) for one, why in zip(self.running, reasons) if why or one.request.stream]
        if told:
            self.send(*map(list, zip(*told)))
        self.seen = [one.prompt + one.output for one, why in zip(self.running, reasons) if why] + self.seen[:200]
        self.running = [one for one, why in zip(self.running, reasons) if not why]

    def run(self):
        self.tell_load()
        while True:
            while self.requests.poll(0 if self.running or self.waiting else None):
                self.take(io.sock_recv(self.requests))
            self.step()
            self.tell_load()


def run_scheduler(arguments, ports, gpu, tp_rank, pp_rank, dp_rank, pipe, **_):
    rank = spawn_world_rank(arguments, tp_rank=tp_rank, pp_rank=pp_rank)
    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=rank, dp_rank=dp_rank, gpu_id=gpu))
    scheduler = Scheduler(arguments, ports)
    pipe.send({"status": "ready", "max_total_num_tokens": KV_TOKENS, "max_req_input_len": CONTEXT - 6,
               "startup_time": {}, "hicache_object_layout": None})
    scheduler.run()


if __name__ == "__main__":
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.server_args import prepare_server_args

    launch_server(prepare_server_args(sys.argv[1:]), run_scheduler_process_func=run_scheduler)
