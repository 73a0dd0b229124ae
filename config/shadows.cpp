#include "config/shadows.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "config/health.hpp"
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
constexpr Reads<std::string> sha256_hex{read_sha256_hex, "64 hex digits",
                                        [](const std::string& hash) { return hash.substr(0, 8) + "..."; }};

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

/// Checks that `of` and `twin` are there, and that one way to draw requests is chosen.
void check_source(TableReader& table, const Shadow& shadow, const toml::node* of, const toml::node* twin,
                  const toml::node* sample, const std::vector<Pool>& pools) {
  if (of != nullptr && !pools.empty()) table.names_one_of("of", *of, shadow.of, pools, "pool of the file");
  if (twin != nullptr && sample != nullptr)
    table.blame("sample", *sample,
                "twin is set as well, and a twin gets all that its primary gets; remove one of them");
  if (!table.has("twin") && !table.has("sample"))
    table.blame_table(
        "says not which requests it gets; set twin = \"REPLICA\" for all that one replica gets, or sample = "
        "0.1 for a share of the pool");
  const auto pool = std::ranges::find(pools, shadow.of, &Pool::name);
  if (twin == nullptr || pool == pools.end() || pool->replicas.empty()) return;
  table.names_one_of("twin", *twin, shadow.twin, pool->replicas, "replica of the pool \"" + shadow.of + '"');
}

class ShadowReading {
 public:
  ShadowReading(ReplicaReading& replicas, const std::vector<Pool>& pools, Report& report)
      : replicas_(replicas), pools_(pools), report_(report) {}

  /// What the table does not set is as in `otherwise`.
  Shadow shadow(const toml::table& source, Shadow shadow) {
    TableReader table("[[shadow]]", source, report_);
    table.read_name(shadow.name, name, names_, "metrics and log need it, such as name = \"fp8\"",
                    "The shadow in metrics, log and reports. Unique in the file.");
    const auto* const of = table.require("of", shadow.of, name, "say which pool's requests are mirrored",
                                         "The pool whose requests are mirrored.");
    const auto* const twin = table.read("twin", shadow.twin, name,
                                        "A replica of that pool: each request that it gets is mirrored. The shadow "
                                        "then has the same arrivals, load and prefixes; only so can a comparison of "
                                        "latencies carry a verdict. Set `twin` or `sample`.");
    const auto* const sample = table.read("sample", shadow.sample, Number{0.000001, 1},
                                          "Share of the pool's requests that is mirrored: all turns of a conversation "
                                          "or none.");
    check_source(table, shadow, of, twin, sample, pools_);
    if (const auto* control = table.read(
            "control", shadow.control, flag,
            "This twin runs the primary's own configuration. Candidates of the same primary are compared with it, so "
            "that warm-up and the shadow's place cancel out.");
        control && shadow.control && !twin)
      table.blame("control", *control, "needs twin: a control gets the same requests as the candidate");
    table.read("stop_after", shadow.stop_after, time,
               "Time after its first request at which the shadow is switched off.");
    table.read_secret_list(
        "exclude_keys", shadow.exclude_keys, sha256_hex,
        [&](const toml::node&, std::string key) { shadow.exclude_keys.push_back(std::move(key)); },
        "SHA-256 of clients' keys whose requests are not mirrored, in small letters.");
    read_set(table, shadow);
    std::string set;
    for (const auto& one : shadow.set) set += (set.empty() ? "" : ", ") + one.key + " = " + one.json;
    table.list("set", '[' + set + ']');
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
  Shadow usual;
  usual.health = defaults.health;
  usual.engine = defaults.engine;
  for (const auto* source : file.tables("shadow",
                                        "Copies of a pool's requests go to a candidate, whose answers are measured "
                                        "and thrown away: [guide](../guides/shadow.md). Its series have "
                                        "`role=\"shadow\"` and the pool `POOL:shadow`."))
    shadows.push_back(reading.shadow(*source, usual));
  return shadows;
}

void list_shadows(const std::vector<Shadow>& shadows, ReplicaReading& replicas, Report& report) {
  const std::vector<Pool> none;
  ShadowReading reading(replicas, none, report);
  for (const auto& shadow : shadows) {
    report.listing()->push_back({"shadow " + shadow.name, "", {}});
    reading.shadow(no_table, shadow);
    read_health({"[health]", no_table, report}, shadow.health);
    read_engine({"[engine]", no_table, report}, shadow.health, shadow.engine);
    for (const auto& replica : shadow.replicas) replicas.list(replica, "shadow " + shadow.name);
  }
}

}  // namespace weir::config
