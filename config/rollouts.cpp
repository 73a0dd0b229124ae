#include "config/rollouts.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "config/pools.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

constexpr std::string_view step_form =
    "must be \"shadow\" or a share such as \"5%\", a space, and the step's least time, such as \"shadow 20m\" or "
    "\"5% 10m\"; the last one is \"100%\"";

/// Returns the share that "5%" means; nothing if it is no share above 0 and of at most 100 %.
std::optional<double> share_in(std::string_view text) {
  if (!text.ends_with('%') || text.front() < '0' || text.front() > '9') return std::nullopt;
  text.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end != text.data() + text.size() || percent <= 0 || percent > 100) return std::nullopt;
  return percent / 100;
}

Parsed<Rollout::Step> read_step(const toml::node& node) {
  const auto* const text = node.as_string();
  if (text == nullptr) return Problem{std::string(step_form)};
  const std::string_view all = text->get();
  const auto space = all.find(' ');
  const auto what = all.substr(0, space);
  Rollout::Step step;
  step.shadow = what == "shadow";
  if (!step.shadow) {
    const auto share = share_in(what);
    if (!share) return Problem{std::string(step_form)};
    step.share = *share;
  }
  if (space == all.npos) {
    if (step.share == 1) return step;
    return Problem{"has no time; write how long the step lasts at least, such as \"" + std::string(all) + " 10m\""};
  }
  const auto least = parse_duration(all.substr(space + 1));
  if (!least || least->count() < 0.001 || least->count() > 7 * 86'400.0) return Problem{std::string(step_form)};
  if (step.share == 1)
    return Problem{"has a time, and no step follows: nothing is left to compare the candidate with; write \"100%\""};
  step.least = *least;
  return step;
}

constexpr Reads<Rollout::Step> step{read_step, "step",
                                    [](const Rollout::Step& one) { return '"' + to_text(one) + '"'; }};

std::vector<Rollout::Step> usual_steps(bool shadow) {
  using std::chrono::minutes;
  std::vector<Rollout::Step> steps;
  if (shadow) steps.push_back({true, 0, minutes(20)});
  steps.insert(steps.end(), {{false, 0.01, minutes(10)},
                             {false, 0.05, minutes(10)},
                             {false, 0.25, minutes(20)},
                             {false, 0.5, minutes(20)},
                             {false, 1, Seconds(0)}});
  return steps;
}

class RolloutReading {
 public:
  RolloutReading(const Settings& settings, Report& report) : settings_(settings), report_(report) {}

  /// What the table does not set is as in `otherwise`.
  Rollout rollout(const toml::table& source, Rollout rollout = {}) {
    TableReader table("[[rollout]]", source, report_);
    table.read_name(rollout.name, name, names_, "commands and metrics need it, such as name = \"fp8\"",
                    "The rollout in commands, metrics and log. Unique in the file.");
    const auto* const pool = table.require("pool", rollout.pool, name, "say whose requests the candidate gets",
                                           "The pool whose requests are split. A pool has one rollout at a time.");
    if (pool != nullptr && names_one_of(table, "pool", *pool, rollout.pool, settings_.pools, "pool of the file"))
      table.refuse_taken("pool", *pool, rollout.pool, pools_, "a pool has one rollout at a time");
    const auto* const candidate =
        table.require("candidate", rollout.candidate, Text{256}, "say which config the new replicas of the pool have",
                      "The `config` of the candidate's replicas. All other replicas of the pool are the stable side.");
    if (candidate != nullptr) check_candidate(table, *candidate, rollout);
    const auto* const shadow = table.read(
        "shadow", rollout.shadow, name,
        "The `[[shadow]]` that mirrors to the candidate in the first step. The rollout switches it on and off.");
    if (shadow != nullptr &&
        names_one_of(table, "shadow", *shadow, rollout.shadow, settings_.shadows, "shadow of the file"))
      check_shadow(table, *shadow, rollout);
    read_slo(table, rollout);
    read_steps(table, rollout);
    const auto* const answers =
        table.read("answers", rollout.answers, OneOf<OtherAnswers, other_answers_words.size()>{other_answers_words},
                   "What happens when the shadow step shows that the candidate answers otherwise: `\"look\"` pauses, "
                   "`\"same\"` rolls back at once (needs `shadow` and a control), `\"any\"` goes on.");
    if (answers != nullptr && rollout.answers == OtherAnswers::same) check_same(table, *answers, rollout);
    if (settings_.admin.state.empty())
      table.blame_table("needs a place that outlasts a restart of weir; set [admin] state = \"/var/lib/weir\"");
    table.refuse_the_rest();
    return rollout;
  }

 private:
  const Pool* pool_of(const Rollout& rollout) const {
    const auto pool = std::ranges::find(settings_.pools, rollout.pool, &Pool::name);
    return rollout.pool.empty() || pool == settings_.pools.end() ? nullptr : &*pool;
  }

  void check_candidate(TableReader& table, const toml::node& node, const Rollout& rollout) {
    const auto* const pool = pool_of(rollout);
    if (pool == nullptr || pool->replicas.empty()) return;
    std::vector<std::string_view> configs;
    for (const auto& one : pool->replicas)
      if (std::ranges::find(configs, one.config) == configs.end()) configs.push_back(one.config);
    const auto what = "config of the pool \"" + rollout.pool + '"';
    if (!table.is_one_of("candidate", node, rollout.candidate, configs, what) || configs.size() > 1) return;
    table.blame("candidate", node,
                "is the config of all replicas of the pool, so that no stable side is left; give the replicas of the "
                "version in use another config, or remove this rollout if it is done");
  }

  void check_shadow(TableReader& table, const toml::node& node, const Rollout& rollout) {
    const auto& shadow = *std::ranges::find(settings_.shadows, rollout.shadow, &Shadow::name);
    if (!rollout.pool.empty() && shadow.of != rollout.pool)
      return table.blame("shadow", node,
                         "mirrors the requests of the pool \"" + shadow.of + "\", not of \"" + rollout.pool +
                             "\"; name a shadow with of = \"" + rollout.pool + '"');
    if (shadow.control)
      return table.blame("shadow", node,
                         "is a control, which runs the configuration in use; name the shadow of the candidate");
    for (const auto& replica : shadow.replicas)
      if (!rollout.candidate.empty() && replica.config != rollout.candidate)
        return table.blame("shadow", node,
                           "mirrors to \"" + replica.name + "\", whose config is \"" + replica.config +
                               "\" and not \"" + rollout.candidate + "\"; give that replica config = \"" +
                               rollout.candidate + '"');
  }

  /// Answers are compared in the shadow step alone, and only a control tells a change from what varies by itself.
  void check_same(TableReader& table, const toml::node& node, const Rollout& rollout) {
    if (rollout.shadow.empty())
      return table.blame("answers", node,
                         "compares the answers of a shadow, and this rollout has none; set shadow = \"NAME\", or "
                         "remove this key");
    const auto shadow = std::ranges::find(settings_.shadows, rollout.shadow, &Shadow::name);
    if (shadow == settings_.shadows.end()) return;  // An error of its own.
    if (shadow->twin.empty())
      return table.blame("answers", node,
                         "needs a control beside the shadow, and only a twin has one; give the shadow \"" +
                             rollout.shadow + "\" twin = \"REPLICA\" in place of sample, or remove this key");
    const auto is_control = [&](const Shadow& one) {
      return one.control && one.of == shadow->of && one.twin == shadow->twin;
    };
    if (std::ranges::none_of(settings_.shadows, is_control))
      table.blame("answers", node,
                  "needs a control of the shadow's primary, since answers of one version differ, too; add a [[shadow]] "
                  "with control = true and what the shadow \"" +
                      rollout.shadow + "\" has as `of` and `twin`");
  }

  void read_slo(TableReader& table, Rollout& rollout) {
    if (const auto* const node =
            table.read("slo", rollout.slo, name,
                       "The `[[slo]]` whose misses count. Without it: the pool's first one, if there is any.")) {
      if (!names_one_of(table, "slo", *node, rollout.slo, settings_.slos, "objective of the file")) return;
      const auto& slo = *std::ranges::find(settings_.slos, rollout.slo, &Slo::name);
      if (slo.pool != rollout.pool && !rollout.pool.empty())
        table.blame("slo", *node,
                    "is about the pool \"" + slo.pool + "\", not \"" + rollout.pool +
                        "\"; name an [[slo]] with pool = \"" + rollout.pool + '"');
      return;
    }
    const auto first = std::ranges::find(settings_.slos, rollout.pool, &Slo::pool);
    if (!table.has("slo") && first != settings_.slos.end()) rollout.slo = first->name;
  }

  void read_steps(TableReader& table, Rollout& rollout) {
    const bool has_shadow = table.has("shadow");
    const auto usual = usual_steps(has_shadow);
    std::vector<const toml::node*> nodes;
    const auto* const list = table.read_list(
        "steps", rollout.steps.empty() ? usual : rollout.steps, step,
        [&](const toml::node& node, Rollout::Step one) {
          nodes.push_back(&node);
          rollout.steps.push_back(one);
        },
        "Steps in order: a share of the pool's requests, and the time that it lasts at least. Shares grow, and the "
        "last one is `\"100%\"`. With `shadow` the first step is one such as `\"shadow 20m\"`, by default too.");
    if (list == nullptr) {
      rollout.steps = usual;
      return;
    }
    const auto* const array = list->as_array();
    if (array != nullptr && array->size() != rollout.steps.size()) return;  // A wrong one has its own error.
    if (rollout.steps.empty())
      return table.blame("steps", *list,
                         "is empty; write some such as [\"5% 10m\", \"50% 20m\", \"100%\"], or leave it out");
    for (std::size_t i = 0; i < rollout.steps.size(); ++i) {
      const auto& one = rollout.steps[i];
      if (i > 0 && one.shadow)
        table.blame("steps", *nodes[i],
                    "comes after a step with a share; the shadow step is the first, so that the candidate is tried "
                    "before it gets a client's request");
      else if (i > 0 && one.share <= rollout.steps[i - 1].share)
        table.blame("steps", *nodes[i], "is no more than the step before it; shares grow from step to step");
      if (one.shadow && !has_shadow)
        table.blame("steps", *nodes[i],
                    "needs a [[shadow]] that mirrors to the candidate; set shadow = \"NAME\", or remove this step");
    }
    if (has_shadow && !rollout.steps.front().shadow)
      table.blame("steps", *nodes.front(),
                  "comes first, and shadow is set; begin with a step such as \"shadow 20m\", or remove shadow");
    if (rollout.steps.back().share != 1)
      table.blame("steps", *nodes.back(), "is the last one, and the last step is \"100%\"; add that");
  }

  const Settings& settings_;
  Report& report_;
  Places names_, pools_;
};

}  // namespace

std::vector<Rollout> read_rollouts(TableReader& file, const Settings& settings, Report& report) {
  std::vector<Rollout> rollouts;
  RolloutReading reading(settings, report);
  for (const auto* source : file.tables("rollout",
                                        "A candidate gets a growing share of a pool's requests, and is rolled back "
                                        "by itself where it is worse: [guide](../guides/rollout.md). Its replicas "
                                        "stand in the pool with a `config` of their own, and get no request until "
                                        "the rollout is started."))
    rollouts.push_back(reading.rollout(*source));
  return rollouts;
}

void list_rollouts(const Settings& settings, Report& report) {
  RolloutReading reading(settings, report);
  for (const auto& rollout : settings.rollouts) {
    report.listing()->push_back({"rollout " + rollout.name, "", {}});
    reading.rollout(no_table, rollout);
  }
}

std::string percent(double share) {
  constexpr double millionth = 1e6;  // A share of 7 % times 100 is no whole number.
  return format_number(std::round(share * 100 * millionth) / millionth) + '%';
}

std::string to_text(const Rollout::Step& step) {
  const auto what = step.shadow ? std::string("shadow") : percent(step.share);
  return step.least.count() > 0 ? what + ' ' + format_duration(step.least) : what;
}

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
  if (of != nullptr && !pools.empty()) names_one_of(table, "of", *of, shadow.of, pools, "pool of the file");
  if (twin != nullptr && sample != nullptr)
    table.blame("sample", *sample,
                "twin is set as well, and a twin gets all that its primary gets; remove one of them");
  if (!table.has("twin") && !table.has("sample"))
    table.blame_table(
        "says not which requests it gets; set twin = \"REPLICA\" for all that one replica gets, or sample = "
        "0.1 for a share of the pool");
  const auto pool = std::ranges::find(pools, shadow.of, &Pool::name);
  if (twin == nullptr || pool == pools.end() || pool->replicas.empty()) return;
  names_one_of(table, "twin", *twin, shadow.twin, pool->replicas, "replica of the pool \"" + shadow.of + '"');
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
    table.read_list(
        "exclude_keys", shadow.exclude_keys, sha256_hex,
        [&](const toml::node&, std::string key) { shadow.exclude_keys.push_back(std::move(key)); },
        "SHA-256 of clients' keys whose requests are not mirrored, in small letters.", TableReader::Shown::no);
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
