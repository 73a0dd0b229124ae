#include "config/slos.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "config/nearest.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

struct Threshold {
  std::string_view key;
  std::optional<Seconds> Slo::*value;
};
constexpr std::array<Threshold, 4> thresholds{
    {{"ttft_client", &Slo::ttft_client}, {"ttft", &Slo::ttft}, {"tpot", &Slo::tpot}, {"e2e", &Slo::e2e}}};

void refuse_unknown_pool(TableReader& table, const toml::node& node, const Slo& slo, const std::vector<Pool>& pools) {
  std::vector<std::string_view> names;
  for (const auto& pool : pools) {
    if (!pool.name.empty()) names.push_back(pool.name);  // A pool with a wrong name has an error of its own.
  }
  if (names.empty() || std::find(names.begin(), names.end(), slo.pool) != names.end()) return;
  std::string problem = "is no pool of the file; ";
  if (const auto meant = nearest(slo.pool, names); !meant.empty()) {
    problem += "did you mean \"" + std::string(meant) + "\"?";
  } else {
    problem += "there are";
    for (const auto one : names) problem += (one == names.front() ? " \"" : ", \"") + std::string(one) + '"';
  }
  table.blame("pool", node, problem);
}

}  // namespace

std::vector<Slo> read_slos(TableReader& file, const std::vector<Pool>& pools, Report& report) {
  std::vector<Slo> slos;
  Places names;
  for (const auto* source : file.tables("slo")) {
    Slo slo;
    TableReader table("[[slo]]", *source, report);
    if (const auto* node = table.require("name", slo.name, &name, "metrics need it, such as name = \"chat\"")) {
      table.refuse_taken("name", *node, slo.name, names, "names are unique in the file");
    }
    if (const auto* node = table.require("pool", slo.pool, &name, "say whose requests it is about")) {
      refuse_unknown_pool(table, *node, slo, pools);
    }
    bool any = false;
    for (const auto& [key, value] : thresholds) {
      table.read(key, slo.*value, &time);
      any |= table.has(key);
    }
    if (!any) {
      table.blame_table(
          "has no threshold; set at least one of ttft_client, ttft, tpot and e2e, such as ttft_client = "
          "\"1s\"");
    }
    table.refuse_the_rest();
    slos.push_back(std::move(slo));
  }
  return slos;
}

}  // namespace weir::config
