#include "lab/experiment/plan.hpp"

#include <toml++/toml.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "config/keys.hpp"
#include "config/load.hpp"
#include "config/table_reader.hpp"
#include "config/values.hpp"
#include "lab/load/connection.hpp"
#include "lab/text.hpp"

namespace weir::lab::experiment {
namespace {

namespace fs = std::filesystem;
using config::described_elsewhere;
using config::Number;
using config::SettingsError;
using config::TableReader;
using config::Text;
using config::Whole;

constexpr std::string_view no_key_file =
    "there is no such file; give its path from the root, or from the folder of this file";
constexpr std::string_view tgi_knows_eos_alone =
    "has no member that makes an answer go on behind its end; leave out ignore_eos in [prompts]";
constexpr std::int64_t most_at_once = 100'000;
const config::OneOf<load::Api, 3> api{
    {{{"chat", load::Api::chat}, {"completions", load::Api::completions}, {"tgi", load::Api::tgi}}}};

std::string url_of(const config::ReplicaUrl& url) {
  return (url.tls ? "https://" : "http://") + url.authority + url.prefix;
}

/// Reads the url of a run, which may end in /v1, as SDKs have it.
config::Parsed<config::ReplicaUrl> place(const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) return config::replica_url(node);
  return config::replica_url(toml::value<std::string>(load::without_v1(text->get())));
}

config::Parsed<load::Shape> shape_name(const toml::node& node) {
  std::string known;
  for (const load::Shape& one : load::shapes) {
    if (const auto* text = node.as_string(); text && text->get() == one.name) return one;
    known += (known.empty() ? "\"" : ", \"") + std::string(one.name) + '"';
  }
  return config::Problem{"must be one of " + known};
}

/// Says why a place cannot be measured by this program; "" if it can.
std::string_view unreachable(const config::ReplicaUrl& url) {
  if (url.unix_path.empty()) return "";
  return "is a Unix socket, which weir-lab does not speak; give the address of a weir in front of it";
}

/// Reads one experiment; what it finds wrong goes into the report, and what is wrong in the settings file beside it.
class PlanReading {
 public:
  PlanReading(const toml::table& root, std::string file) : root_(root), file_(std::move(file)), report_(file_) {}

  PlanResult read() {
    TableReader top("", root_, report_);
    plan_.title = fs::path(file_).stem().string();
    top.read("title", plan_.title, Text{200}, described_elsewhere);
    std::string results = fs::path(file_).stem().string() + ".results.jsonl";
    const auto* results_named = top.read("results", results, Text{1000}, described_elsewhere);
    plan_.results = beside(results);
    plan_.inputs.emplace_back("the experiment", file_);
    top.read("repeat", plan_.repeat, Whole<std::uint64_t>{1, 1000}, described_elsewhere);
    key_ = read_key(top);
    read_settings(top);
    read_prompts(TableReader("[prompts]", top.table("prompts", described_elsewhere), report_));
    const auto runs = top.tables("run", described_elsewhere);
    for (const auto* source : runs) read_run(*source);
    if (runs.empty() && !top.has("run")) {
      report_.add({}, "no [[run]] in the file; add one with a label and a url, or the name of a replica");
    }
    for (const auto& [what, path] : plan_.inputs) {
      if (!results_named || !is_one_file(plan_.results, path)) continue;
      top.blame("results", *results_named, "is " + std::string(what) + ", and would be lost; name another file");
      break;
    }
    top.refuse_the_rest();
    if (report_.empty() && settings_errors_.empty()) return std::move(plan_);
    auto errors = report_.take();
    errors.insert(errors.end(), settings_errors_.begin(), settings_errors_.end());
    return errors;
  }

 private:
  std::string beside(const std::string& path) const { return (fs::path(file_).parent_path() / path).string(); }

  void read_settings(TableReader& top) {
    std::string path;
    settings_named_ = top.read("settings", path, Text{1000}, described_elsewhere) != nullptr;
    if (!settings_named_) return;
    plan_.inputs.emplace_back("the settings file", beside(path));
    auto loaded = config::load_file(beside(path));
    if (auto* errors = std::get_if<std::vector<SettingsError>>(&loaded)) {
      settings_errors_ = std::move(*errors);
      return;
    }
    for (auto& pool : std::get<config::Settings>(loaded).pools) {
      for (auto& replica : pool.replicas) replicas_.push_back(std::move(replica));
    }
  }

  /// Reads the key that a table has, in itself or in a file; "" if it has none.
  std::string read_key(TableReader& table) {
    const auto of_file = [this](const toml::node& node) -> config::Parsed<std::string> {
      const auto* path = node.as_string();
      if (!path || path->get().empty()) return config::SecretFile{"the replica's key"}(node);
      const std::string at = beside(path->get());
      plan_.inputs.emplace_back("the file of a key", at);
      if (std::error_code error; fs::is_regular_file(at, error)) {
        return config::SecretFile{"the replica's key"}(toml::value<std::string>(at));
      }
      return config::Problem{std::string(no_key_file)};
    };
    std::string key;
    table.read_secret("api_key", key, config::SecretText{"the replica's key"}, described_elsewhere);
    const auto* in_file = table.read_secret("api_key_file", key, of_file, described_elsewhere);
    if (in_file && table.has("api_key")) {
      table.blame_secret("api_key_file", *in_file, "api_key is set as well, and a run has one key; remove one of them");
    }
    return key;
  }

  void read_prompts(TableReader table) {
    load::Shape shape{};
    load::WorkloadSettings& lengths = plan_.lengths;
    if (table.read("shape", shape, &shape_name, described_elsewhere)) lengths.take(shape);
    table.read("count", plan_.prompts, Whole<std::uint64_t>{1, 10'000'000}, described_elsewhere);
    // A mean without a deviation means requests that are all alike.
    if (table.read("input_tokens", lengths.input_tokens, Number{1, 1e7}, described_elsewhere)) lengths.input_stddev = 0;
    table.read("input_stddev", lengths.input_stddev, Number{0, 1e7}, described_elsewhere);
    if (table.read("output_tokens", lengths.output_tokens, Number{1, 1e7}, described_elsewhere))
      lengths.output_stddev = 0;
    table.read("output_stddev", lengths.output_stddev, Number{0, 1e7}, described_elsewhere);
    table.read("ignore_eos", plan_.ignore_eos, config::flag, described_elsewhere);
    table.read("seed", lengths.seed, Whole<std::uint64_t>{0, 1'000'000'000}, described_elsewhere);
    table.refuse_the_rest();
  }

  void read_run(const toml::table& source) {
    TableReader table("[[run]]", source, report_);
    Row row;
    row.api_key = key_;
    const auto* label = table.require("label", row.label, Text{128}, "the table needs it, such as label = \"H800\"",
                                      described_elsewhere);
    read_place(table, row);
    table.read("model", row.model, Text{256}, described_elsewhere);
    if (const auto key = read_key(table); !key.empty()) row.api_key = key;
    const auto* asked = table.read("api", row.api, api, described_elsewhere);
    if (asked && row.api == load::Api::tgi && plan_.ignore_eos) {
      table.blame("api", *asked, tgi_knows_eos_alone);
    }
    table.read("gpu", row.gpu, Text{128}, described_elsewhere);
    table.read("engine", row.engine, Text{128}, described_elsewhere);
    std::uint64_t speculation = 0;
    if (table.read("speculation", speculation, Whole<std::uint64_t>{0, 1000}, described_elsewhere))
      row.speculation = speculation;
    double cost = 0;
    if (table.read("cost_per_hour", cost, Number{0, 1'000'000}, described_elsewhere)) row.cost_per_hour = cost;
    const auto add = [&](const toml::node& at, std::uint64_t concurrency) {
      row.concurrency = concurrency;
      table.refuse_taken("concurrency", at, row.label + '\n' + std::to_string(concurrency), taken_,
                         "rows of one label differ in concurrency; give this run another label");
      plan_.rows.push_back(row);
    };
    const auto* concurrency = table.read_list("concurrency", std::vector<std::uint64_t>(),
                                              Whole<std::uint64_t>{1, most_at_once}, add, described_elsewhere);
    if (concurrency && concurrency->is_array() && concurrency->as_array()->empty()) {
      table.blame("concurrency", *concurrency, "must be a number or a list of numbers; write concurrency = [1, 8, 32]");
    }
    if (!concurrency && label) {
      table.refuse_taken("label", *label, row.label + "\n1", taken_,
                         "rows of one label differ in concurrency; give this run another label");
      plan_.rows.push_back(row);
    }
    table.refuse_the_rest();
  }

  /// Reads where a run's requests go: a URL, or a replica of the settings file with what is known of it there.
  void read_place(TableReader& table, Row& row) {
    config::ReplicaUrl url;
    const auto* given = table.read("url", url, &place, described_elsewhere);
    if (given) row.url = url_of(url);
    if (const auto why = unreachable(url); given && !why.empty()) table.blame("url", *given, why);
    if (std::string ca; table.read("ca", ca, Text{1000}, described_elsewhere)) {
      row.ca = beside(ca);
      plan_.inputs.emplace_back("the file of authorities", row.ca);
    }
    std::string name;
    const auto* named = table.read("replica", name, config::name, described_elsewhere);
    if (!table.has("url") && !table.has("replica")) {
      table.blame_table(
          "url is missing; say where requests go, such as url = \"http://127.0.0.1:8001\", or give the "
          "name of a replica of a settings file: replica = \"gpu0\"");
    }
    if (!named) return;
    if (table.has("url")) {
      return table.blame("replica", *named, "url is set as well, and a run goes to one place; remove one of them");
    }
    if (!settings_named_) {
      return table.blame("replica", *named,
                         "is looked up in a settings file of weir's, and none is named; write settings = \"weir.toml\" "
                         "above the first table, or give a url");
    }
    if (settings_errors_.empty()) take_replica(table, *named, name, row);
  }

  void take_replica(TableReader& table, const toml::node& named, const std::string& name, Row& row) {
    std::vector<std::string_view> names;
    for (const auto& replica : replicas_) {
      names.push_back(replica.name);
      if (replica.name != name) continue;
      if (const auto why = unreachable(replica.url); !why.empty()) return table.blame("replica", named, why);
      const config::ReplicaTls& tls = replica.tls;
      if (!tls.verify || tls.own || !tls.server_name.empty()) {
        return table.blame("replica", named,
                           "has a tls with server_name, cert or verify = false, which weir-lab does not speak; give "
                           "the address of a weir in front of it");
      }
      row.url = url_of(replica.url);
      row.ca = tls.ca;
      if (!row.ca.empty()) plan_.inputs.emplace_back("the file of authorities", row.ca);
      if (!replica.api_key.empty()) row.api_key = replica.api_key;
      row.gpu = replica.gpu;
      row.cost_per_hour = replica.cost_per_hour;
      return;
    }
    table.is_one_of("replica", named, name, names, "replica of the settings file");
  }

  const toml::table& root_;
  std::string file_;
  config::Report report_;
  Plan plan_;
  std::string key_;  ///< The key of all runs that have none of their own.
  bool settings_named_ = false;
  std::vector<SettingsError> settings_errors_;
  std::vector<config::Replica> replicas_;
  config::Places taken_;
};

}  // namespace

PlanResult read_plan(std::string_view toml, const std::string& file) {
  try {
    const toml::table root = toml::parse(toml, std::string_view(file));
    return PlanReading(root, file).read();
  } catch (const toml::parse_error& error) {
    return std::vector{config::syntax_error(file, error)};
  }
}

PlanResult load_plan(const std::string& path) {
  const auto unreadable = [&](const std::string& why) {
    return std::vector{SettingsError{path, 0, 0, "cannot read the experiment: " + why}};
  };
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    return unreadable("it is no file; name the TOML file itself");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return unreadable(std::error_code(errno, std::generic_category()).message());
  return read_plan(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

namespace {

std::optional<double>* threshold_of(Objective& objective, std::string_view key) {
  if (key == "ttft" || key == "ttft_client") return &objective.ttft;  // For a client they are the same.
  if (key == "tpot") return &objective.tpot;
  return key == "e2e" ? &objective.e2e : nullptr;
}

std::optional<double> seconds_in(std::string_view text) {
  const auto seconds = number_in<double>(text);
  return seconds && *seconds > 0 && *seconds <= 1e6 ? seconds : std::nullopt;
}

}  // namespace

config::Parsed<Objective> parse_objective(std::string_view text) {
  Objective objective;
  std::string_view rest = text;
  while (true) {
    const auto part = rest.substr(0, rest.find(','));
    const auto equals = part.find('=');
    auto* const threshold = threshold_of(objective, part.substr(0, equals));
    const auto seconds = equals == std::string_view::npos ? std::nullopt : seconds_in(part.substr(equals + 1));
    if (!threshold || !seconds || *threshold) {
      return config::Problem{"\"" + config::one_line(text) +
                             "\" must be thresholds in seconds such as ttft=1,tpot=0.05; known are ttft, tpot and e2e, "
                             "each once"};
    }
    *threshold = seconds;
    if (part.size() == rest.size()) return objective;
    rest.remove_prefix(part.size() + 1);
  }
}

bool meets(const Objective& objective, const load::Result& result) {
  if (!result.ok()) return false;
  const double sent = load::seconds_of(result.begun());
  if (objective.ttft) {
    const auto first = result.stream.answer.first_token;
    if (!first || load::seconds_of(*first) - sent > *objective.ttft) return false;
  }
  if (objective.tpot && result.stream.tpot().value_or(0) > *objective.tpot) return false;
  return !objective.e2e || load::seconds_of(result.ended) - sent <= *objective.e2e;
}

}  // namespace weir::lab::experiment
