#include "config/slos.hpp"

#include <array>
#include <string>
#include <string_view>

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

Slo read_slo(const toml::table& source, const std::vector<Pool>& pools, Places& names, Report& report, Slo slo = {}) {
  TableReader table("[[slo]]", source, report);
  table.read_name(slo.name, name, names, "metrics need it, such as name = \"chat\"",
                  "The objective in metrics (label `slo`). Unique in the file.");
  if (const auto* node = table.require("pool", slo.pool, name, "say whose requests it is about",
                                       "The pool whose requests it is about.");
      node != nullptr && !pools.empty())
    table.names_one_of("pool", *node, slo.pool, pools, "pool of the file");
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
  return slo;
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
                                        "that are no streams."))
    slos.push_back(read_slo(*source, pools, names, report));
  return slos;
}

void list_slos(const std::vector<Slo>& slos, Report& report) {
  Places none;
  for (const auto& slo : slos) {
    report.listing()->push_back({"slo " + slo.name, "", {}});
    read_slo(no_table, {}, none, report, slo);
  }
}

}  // namespace weir::config
