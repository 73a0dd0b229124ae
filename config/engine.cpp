#include "config/engine.hpp"

#include "config/values.hpp"

namespace weir::config {
namespace {

void read_keys(TableReader& table, EngineReading& engine) {
  table.read("metrics_path", engine.metrics_path, &path_or_none);
  table.read("interval", engine.interval, &time);
  table.read("timeout", engine.timeout, &time);
}

void read_names(TableReader table, EngineNames& names) {
  const auto read = [&table](std::string_view key, std::vector<std::string>& list) {
    std::vector<std::string> written;
    table.read_list(key, Text{256}, [&](const toml::node&, std::string one) { written.push_back(std::move(one)); });
    if (table.has(key)) list = std::move(written);
  };
  read("running", names.running);
  read("waiting", names.waiting);
  read("kv_usage", names.kv_usage);
  read("kv_used_tokens", names.kv_used_tokens);
  read("kv_tokens", names.kv_tokens);
  read("prefix_queries", names.prefix_queries);
  read("prefix_hits", names.prefix_hits);
  read("prefix_misses", names.prefix_misses);
  read("counters", names.counters);
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
  read_names({"[engine.names]", table.table("names"), report}, names);
  table.refuse_the_rest();
  return engine;
}

}  // namespace weir::config
