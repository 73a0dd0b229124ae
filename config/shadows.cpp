#include "config/shadows.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <string_view>

#include "config/nearest.hpp"
#include "config/show.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

constexpr std::size_t sha256_hex_digits = 64;

Parsed<std::string> read_sha256_hex(const toml::node& node) {
  const auto* text = node.as_string();
  if (!text || text->get().size() != sha256_hex_digits ||
      text->get().find_first_not_of("0123456789abcdef") != std::string::npos)
    return Problem{
        "must be the SHA-256 of a client's key in 64 hex digits, as printf %s KEY | sha256sum prints it, and not the "
        "key"};
  return text->get();
}

/// Reads the SHA-256 of a client's key.
constexpr Reads<std::string> sha256_hex{read_sha256_hex, "64 hex digits"};

/// Writes a TOML value as JSON; "" if it is none that JSON has.
std::string json_of(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    std::ostringstream out;
    out << toml::json_formatter(*text);
    return out.str();
  }
  if (const auto* number = node.as_floating_point(); number && !std::isfinite(number->get())) return {};
  // toml++ writes 0.7 as 0.69999999999999996, and 0x10 as TOML alone has it.
  return node.is_integer() || node.is_floating_point() || node.is_boolean() ? show(node) : std::string();
}

void read_set(TableReader& table, Shadow& shadow) {
  for (const auto& [key, value] : table.table(
           "set",
           "Top-level members of the request's JSON that get another value, such as `{ model = \"qwen-fp8\" }`.")) {
    auto json = json_of(value);
    if (json.empty()) {
      table.blame("set", value, "must hold text, numbers, true or false");
    } else {
      shadow.set.push_back({std::string(key.str()), std::move(json)});
    }
  }
}

std::string these(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto one : names) text += (text.empty() ? "\"" : ", \"") + std::string(one) + '"';
  return text;
}

void refuse_unknown(TableReader& table, std::string_view key, const toml::node& node, const std::string& name,
                    const std::vector<std::string_view>& names, const std::string& what) {
  if (names.empty() || std::ranges::find(names, name) != names.end()) return;
  const auto meant = nearest(name, names);
  table.blame(key, node,
              "is no " + what +
                  (meant.empty() ? "; there are " + these(names) : "; did you mean \"" + std::string(meant) + "\"?"));
}

/// Checks that `of` and `twin` are there, and that one way to draw requests is chosen.
void check_source(TableReader& table, const Shadow& shadow, const toml::node* of, const toml::node* twin,
                  const toml::node* sample, const std::vector<Pool>& pools) {
  if (of != nullptr) {
    std::vector<std::string_view> names;
    for (const auto& pool : pools)
      if (!pool.name.empty()) names.push_back(pool.name);
    refuse_unknown(table, "of", *of, shadow.of, names, "pool of the file");
  }
  if (twin != nullptr && sample != nullptr)
    table.blame("sample", *sample,
                "twin is set as well, and a twin gets all that its primary gets; remove one of them");
  if (!table.has("twin") && !table.has("sample"))
    table.blame_table(
        "says not which requests it gets; set twin = \"REPLICA\" for all that one replica gets, or sample = "
        "0.1 for a share of the pool");
  const auto pool = std::ranges::find(pools, shadow.of, &Pool::name);
  if (twin == nullptr || pool == pools.end()) return;
  std::vector<std::string_view> names;
  for (const auto& one : pool->replicas) names.push_back(one.name);
  refuse_unknown(table, "twin", *twin, shadow.twin, names, "replica of the pool \"" + shadow.of + '"');
}

class ShadowReading {
 public:
  ShadowReading(ReplicaReading& replicas, const std::vector<Pool>& pools, Report& report)
      : replicas_(replicas), pools_(pools), report_(report) {}

  Shadow shadow(const toml::table& source) {
    Shadow shadow;
    TableReader table("[[shadow]]", source, report_);
    if (const auto* node = table.require("name", shadow.name, name, "metrics and log need it, such as name = \"fp8\"",
                                         "The shadow in metrics, log and reports. Unique in the file."))
      table.refuse_taken("name", *node, shadow.name, names_, "names are unique in the file");
    const auto* const of = table.require("of", shadow.of, name, "say which pool's requests are mirrored",
                                         "The pool whose requests are mirrored.");
    const auto* const twin = table.read("twin", shadow.twin, name,
                                        "A replica of that pool: each request that it gets is mirrored. The shadow "
                                        "then has the same arrivals, load and prefixes; only so can a comparison of "
                                        "latencies carry a verdict. Set `twin` or `sample`.");
    const auto* const sample =
        table.read("sample", shadow.sample, Number{0.000001, 1}, "Share of the pool's requests that is mirrored.");
    check_source(table, shadow, of, twin, sample, pools_);
    if (const auto* control = table.read(
            "control", shadow.control, flag,
            "This twin runs the primary's own configuration. Candidates of the same primary are compared with it, so "
            "that warm-up and the shadow's place cancel out.");
        control && shadow.control && !twin)
      table.blame("control", *control, "needs twin: a control gets the same requests as the candidate");
    if (const auto* key = table.read("key", shadow.key, sample_by,
                                     "How a sample is drawn: all turns of a conversation or none, each request by "
                                     "itself, or all with the same text in this header.");
        key && !sample)
      table.blame("key", *key, "says how a sample is drawn, and sample is not set; remove it");
    table.read("max_in_flight", shadow.max_in_flight, Whole<std::uint32_t>{1, 100'000},
               "The most mirrored requests at a time. Others are dropped and counted.");
    table.read("max_queued_tokens", shadow.max_queued_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000},
               "The most prompt tokens that wait in the shadow's replicas. Other requests are dropped and counted.");
    table.read("on_client_abort", shadow.finish, OneOf<bool, 2>{{{{"follow", false}, {"finish", true}}}},
               "A mirrored request whose client leaves ends too (`\"follow\"`), or runs to its end.");
    table.read("stop_after", shadow.stop_after, time,
               "Time after its first request at which the shadow is switched off.");
    table.read("max_pairs", shadow.max_pairs, Whole<std::uint64_t>{1, 1'000'000'000'000},
               "Number of answers after which the shadow is switched off.");
    table.read_secret_list(
        "exclude_keys", shadow.exclude_keys, sha256_hex,
        [&](const toml::node&, std::string key) { shadow.exclude_keys.push_back(std::move(key)); },
        "SHA-256 of clients' keys whose requests are not mirrored, in small letters.");
    read_set(table, shadow);
    table.read("forward_auth", shadow.forward_auth, flag,
               "The client's credentials go to the shadow's replicas as well, but for a key for weir. Without it "
               "they get their own `api_key`, or none.");
    Places urls;
    for (const auto* one : table.tables("replica", About("A replica of the candidate. A twin has one.", true)))
      shadow.replicas.push_back(replicas_.replica("[[shadow.replica]]", *one, urls));
    if (shadow.replicas.empty() && !table.has("replica"))
      table.blame_table("has no replica; add a [[shadow.replica]] with name and url below it");
    if (!shadow.twin.empty() && shadow.replicas.size() > 1)
      table.blame_table(
          "is a twin and has more than one replica; a twin is one replica that gets what another one gets");
    table.refuse_the_rest();
    return shadow;
  }

 private:
  ReplicaReading& replicas_;
  const std::vector<Pool>& pools_;
  Report& report_;
  Places names_;
};

}  // namespace

std::vector<Shadow> read_shadows(TableReader& file, ReplicaReading& replicas, const std::vector<Pool>& pools,
                                 const Defaults& defaults, Report& report) {
  std::vector<Shadow> shadows;
  ShadowReading reading(replicas, pools, report);
  for (const auto* source : file.tables("shadow",
                                        "Copies of a pool's requests go to a candidate, whose answers are measured "
                                        "and thrown away: [guide](../guides/shadow.md). Its series have "
                                        "`role=\"shadow\"` and the pool `POOL:shadow`.")) {
    shadows.push_back(reading.shadow(*source));
    shadows.back().health = defaults.health;
    shadows.back().engine = defaults.engine;
  }
  return shadows;
}

}  // namespace weir::config
