#include "config/engine.hpp"

#include "config/values.hpp"

namespace weir::config {
namespace {

void read_keys(TableReader& table, EngineReading& engine) {
  table.read("metrics_path", engine.metrics_path, path_or_none,
             "The engine's metrics page in Prometheus' text format, at most 1 MiB. `\"\"`: weir asks the replica for "
             "nothing about itself.");
  table.read("interval", engine.interval, time,
             "Time between two readings of a replica, a fifth more or less at random. A slow page is read less "
             "often. Figures older than two intervals are unknown.");
  table.read("timeout", engine.timeout, time, "How long a page may take. A slower page does not count.");
}

void read_names(TableReader table, EngineNames& names) {
  const auto read = [&table](std::string_view key, std::vector<std::string>& list, const About& about) {
    std::vector<std::string> written;
    table.read_list(
        key, list, Text{256}, [&](const toml::node&, std::string one) { written.push_back(std::move(one)); }, about);
    if (table.has(key)) list = std::move(written);
  };
  read("running", names.running, "Requests in execution, a gauge.");
  read("waiting", names.waiting, "Requests that wait in the engine, a gauge.");
  read("kv_usage", names.kv_usage, "Share of the KV cache in use, 0 to 1, a gauge.");
  read("kv_used_tokens", names.kv_used_tokens, "Tokens in the KV cache, a gauge, where the engine has no share.");
  read("kv_tokens", names.kv_tokens,
       "Size of the KV cache in tokens, a gauge. vLLM and Aphrodite tell it in `cache_config_info`, which needs no "
       "name here.");
  read("prefix_queries", names.prefix_queries, "Prompt tokens looked up in the prefix cache, a counter.");
  read("prefix_hits", names.prefix_hits, "Prompt tokens found there, a counter.");
  read("prefix_misses", names.prefix_misses,
       "Prompt tokens not found there, a counter, where the engine does not count the queries.");
  read("counters", names.counters,
       "Counters that move while the engine works, and fall only when it starts anew. A fall means an empty prefix "
       "cache; growth between two probes means that the replica is alive.");
  table.refuse_the_rest();
}

}  // namespace

EngineReading read_pool_engine(TableReader table, EngineReading engine) {
  read_keys(table, engine);
  table.refuse_the_rest();
  return engine;
}

EngineReading read_engine(const toml::table& source, Report& report, EngineNames& names) {
  EngineReading engine;
  TableReader table("[engine]", source, report);
  read_keys(table, engine);
  read_names(
      {"[engine.names]",
       table.table("names",
                   "Names of the figures on the metrics pages of all engines. Of each list the first name on the "
                   "page counts, and its lines are added up (shares are averaged). A list set here replaces the "
                   "default. `[]`: the figure is not read."),
       report},
      names);
  table.refuse_the_rest();
  return engine;
}

}  // namespace weir::config
