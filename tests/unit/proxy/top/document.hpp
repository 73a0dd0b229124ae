// Documents of /api/live as weir writes them (docs/reference/api.md), for the tests of `weir top`.
#pragma once

#include <simdjson.h>

#include <string>

#include "proxy/top/rows.hpp"

namespace weir::proxy::top {

struct Parsed {
  explicit Parsed(const std::string& text) : root(parser.parse(text)) {}
  simdjson::dom::parser parser;
  Json root;
};

/// Returns "name":value pairs for a replica.
inline std::string replica_json(const std::string& name, const std::string& state = "up", int in_flight = 12,
                                const std::string& reason = "its last probe passed", const std::string& pool = "chat",
                                const std::string& role = "primary") {
  return '"' + name + R"(":{"pool":")" + pool + R"(","role":")" + role +
         R"(","shadow":null,"config":"a","gpu":null,"url":"http://127.0.0.1:8001","state":")" + state +
         R"(","since":"2026-11-26T14:00:00.000Z","reason":")" + reason + R"(","leaving":false,"in_flight":)" +
         std::to_string(in_flight) +
         R"(,"max_in_flight":64,"in_prefill":1.5,"in_decode":10,"queued_prefill_tokens":2100,)"
         R"("kv":{"usage":0.61,"source":"weir","tokens":100000},"oldest_unanswered_s":0.4,)"
         R"("tokens_out_per_s":1900.5,"failed_60s":0,"retries_60s":2,"ttft_s":{"p50":0.0912,"p95":1.2},)"
         R"("tpot_s":{"p50":0.024},"prediction_error":0.12,"cached_share":0.31,)"
         R"("engine":{"name":"vllm","version":"0.9.1","model":"m","running":12,"waiting":0,"divergence":null}})";
}

inline std::string finding_json(const std::string& what, const std::string& who, const std::string& text,
                                const std::string& severity = "warning") {
  return '"' + what + ":" + who + R"(":{"what":")" + what + R"(","who":")" + who + R"(","severity":")" + severity +
         R"(","since":"2026-11-26T14:08:00.000Z","text":")" + text +
         R"(","runbook":"docs/guides/alerts.md#slow_replica"})";
}

/// Returns a document at 14:12:11 with these replicas and findings; `weir` goes in front of weir's other members.
inline std::string document_json(const std::string& replicas, const std::string& findings = "",
                                 const std::string& weir = "") {
  return R"({"schema":1,"time":"2026-11-26T14:12:11.250Z","serial":7,"weir":{)" + weir +
         R"("version":"0.1.0","instance":"vm","uptime_s":11520,"ready":true,"why_not_ready":null,"draining":false,)"
         R"("bypass":false,"settings":{"loaded":"2026-11-26T12:40:00.000Z","ok":true,"errors":[]},"threads":2,)"
         R"("cpu":0.34,"memory_bytes":42991616,"descriptors":230,"descriptors_limit":1024,"connections":130,)"
         R"("connections_limit":4096,"loop_delay_p99_s":0.001,"overhead_p99_s":0.00005,"buffer_bytes":0,)"
         R"("buffer_limit_bytes":536870912,"log":{"lines_lost":0,"queued":0,"loses":false,"waits_for_reader":false,)"
         R"("why":null},"certificate_ends":null,"limits_60s":{"queue":126}},)"
         R"("pools":{"chat":{"replicas":4,"up":2,"in_flight":118,"max_in_flight":192,"waiting":69,"queue":256,)"
         R"("oldest_waiting_s":4.1,"requests_per_s":41.2,"failed_per_s":0.4,"refused_per_s":2.1,)"
         R"("tokens_in_per_s":9100,)"
         R"("tokens_out_per_s":5600,"ttft_s":{"p50":0.09,"p95":1.2},"tpot_s":{"p50":0.024},)"
         R"("slo":{"name":"fast","good_60s":987,"bad_60s":13,"attainment":0.987}},)"
         R"("embeddings-of-documents":{"replicas":1,"up":1,"in_flight":3,"max_in_flight":null,"waiting":0,"queue":64,)"
         R"("oldest_waiting_s":null,"requests_per_s":12,"failed_per_s":0,"refused_per_s":0,"ttft_s":{"p50":null},)"
         R"("slo":null}},"replicas":{)" +
         replicas +
         R"(},"shadows":{"fp8":{"of":"chat","on":false,"in_flight":0,"max_in_flight":64,"silent_s":null,"sent_60s":0,)"
         R"("dropped_60s":{},"pairs":812,"comparison":null},"fp4":{"of":"chat","on":true,"in_flight":57,)"
         R"("max_in_flight":64,"silent_s":18.2,"sent_60s":245,"dropped_60s":{"primary_waits":2},"pairs":812,)"
         R"("comparison":{"state":"running","pairs":812,"answers":"same","metrics":[{"metric":"tpot","estimate":0.158,)"
         R"("low":0.14,"high":0.17,"finding":"worse"},{"metric":"ttft","estimate":null,"low":null,"high":null,)"
         R"("finding":"inconclusive"}]}}},"rollouts":{"next":{"state":"live","share":0.05}},)"
         R"("keys":{"flood":{"open":120,"max_in_flight":null,"waiting":56,"wait_s":6.2,"requests_per_s":31,)"
         R"("tokens_out_per_s":4100,"refused_60s":2,"failed_60s":0},"alice":{"open":6,"max_in_flight":32,"waiting":13,)"
         R"("wait_s":0.3,"requests_per_s":5.1,"tokens_out_per_s":700,"refused_60s":0,"failed_60s":0}},)"
         R"("requests":{"slowest":[{"time":"2026-11-26T14:10:00.000Z","id":"r1","replica":"gpu1","pool":"chat",)"
         R"("outcome":"ok","status":200,"wait_s":0.5,"prefill_s":2,"decode_s":3,"total_s":5.5}],"failed":[]},)"
         R"("findings":{)" +
         findings +
         R"(},"events":{"41":{"seq":41,"time":"2026-11-26T14:01:40.000Z","level":"info","what":"reload","who":null,)"
         R"("text":"reload (SIGHUP): limits.first_token 5m -> 2m"},"42":{"seq":42,)"
         R"("time":"2026-11-26T14:02:11.000Z","level":"warning","what":"state","who":"gpu2",)"
         R"("text":"gpu2 ejected: 5 requests in a row failed, so it is out for 10 s"}}})";
}

/// Four replicas in four states, one of them slow.
inline std::string usual_document() {
  return document_json(
      replica_json("gpu0") + "," + replica_json("gpu1") + "," +
          replica_json("gpu2", "ejected", 0, "5 requests in a row failed (500); back in 3 s") + "," +
          replica_json("gpu10", "draining", 3, "POST /api/replicas/gpu10/drain"),
      finding_json("slow_replica", "gpu1",
                   "gpu1 is slow: TPOT 2.2x, TTFT 2.1x of its peers; gets 2 % of the requests") +
          "," +
          finding_json("flooding_key", "flood", "56 of 69 that wait are key flood's; the others wait 0.3 s",
                       "critical"));
}

}  // namespace weir::proxy::top
