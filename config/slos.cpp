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
  About about;
};
constexpr std::array<Threshold, 4> thresholds{
    {{"ttft_client", &Slo::ttft_client,
      "The longest that a user may wait for the first token, weir's queue and all attempts included. Streams only."},
     {"ttft", &Slo::ttft, "The longest that the replica may take to the first token. Streams only."},
     {"tpot", &Slo::tpot, "The longest mean time per output token after the first. Streams only."},
     {"e2e", &Slo::e2e, "The longest that the whole request may take."}}};

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
  for (const auto* source : file.tables("slo",
                                        "An objective of a pool's requests. `weir_slo_requests_total` counts those "
                                        "that met every threshold that applies, and those that did not. At least one "
                                        "threshold is set; each becomes a bucket bound of its histograms. "
                                        "Left out are `bad_request`, `client_error`, clients that left before a "
                                        "threshold had passed, and requests to which none applies: without `e2e`, all "
                                        "that are no streams.")) {
    Slo slo;
    TableReader table("[[slo]]", *source, report);
    if (const auto* node = table.require("name", slo.name, name, "metrics need it, such as name = \"chat\"",
                                         "The objective in metrics (label `slo`). Unique in the file.")) {
      table.refuse_taken("name", *node, slo.name, names, "names are unique in the file");
    }
    if (const auto* node = table.require("pool", slo.pool, name, "say whose requests it is about",
                                         "The pool whose requests it is about.")) {
      refuse_unknown_pool(table, *node, slo, pools);
    }
    bool any = false;
    for (const auto& [key, value, about] : thresholds) {
      table.read(key, slo.*value, time, about);
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
