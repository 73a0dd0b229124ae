"""Runs llama.cpp's own HTTP server, out of the package xllamacpp, until it is ended.

Usage: llamacpp_server.py MODEL_FILE PORT"""
import signal
import sys

import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.model_alias = {"tiny"}
settings.hostnames = ["127.0.0.1"]
settings.port = int(sys.argv[2])
settings.n_ctx = 8192
settings.n_parallel = 4  # This is --parallel.
settings.cpuparams.n_threads = 1
settings.cpuparams_batch.n_threads = 1
settings.endpoint_metrics = True  # This is --metrics.
settings.warmup = False
server = xllamacpp.Server(settings)
print(f"listening on {server.listening_address}", flush=True)
signal.pause()
