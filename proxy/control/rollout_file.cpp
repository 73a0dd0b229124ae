#include "proxy/control/rollout_file.hpp"

#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <variant>

#include "config/text_file.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/control/whole_file.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::control {
namespace {

namespace ro = balancer::rollout;
using simdjson::dom::element;

constexpr std::string_view file_name = "rollouts.json";

constexpr config::KindOfFile file_of_state{"rollouts", file_name, 16};

constexpr auto way_out = "make it a directory that weir's user may write and that has room";

std::string file_in(const std::string& directory) { return directory + "/" + std::string(file_name); }

void write_counts(metrics::wire::JsonWriter& json, const ro::Counts& counts) {
  json.open('{').key("candidate").count(counts.candidate).key("candidate_bad").count(counts.candidate_bad);
  json.key("stable").count(counts.stable).key("stable_bad").count(counts.stable_bad).close('}');
}

void write_drawn(metrics::wire::JsonWriter& json, const ro::Drawn& drawn) {
  json.open('{').key("candidate").count(drawn.candidate).key("stable").count(drawn.stable).close('}');
}

std::string text_of(const metrics::SipKey& key) {
  std::array<char, 33> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx%016llx", static_cast<unsigned long long>(key[0]),
                static_cast<unsigned long long>(key[1]));
  return hex.data();
}

// The readers below throw simdjson::simdjson_error or Damaged where the file is not as weir writes it.
struct Damaged {};

metrics::SipKey key_in(std::string_view hex) {
  metrics::SipKey key{};
  if (hex.size() != 32) throw Damaged();
  for (std::size_t i = 0; i < key.size(); ++i) {
    const auto* const end = hex.data() + 16 * (i + 1);
    if (std::from_chars(hex.data() + 16 * i, end, key[i], 16).ptr != end) throw Damaged();
  }
  return key;
}

double amount_in(element value) {
  const double amount = value.get_double();
  if (!std::isfinite(amount) || amount < 0) throw Damaged();
  return amount;
}

/// No weir counts as many as 1e15; evidence of so many would take for ever.
std::uint64_t count_in(element value) {
  const std::uint64_t count = value.get_uint64();
  if (count >= std::uint64_t{1'000'000'000'000'000}) throw Damaged();
  return count;
}

ro::Counts counts_in(element value) {
  ro::Counts counts;
  counts.candidate = count_in(value["candidate"]);
  counts.candidate_bad = count_in(value["candidate_bad"]);
  counts.stable = count_in(value["stable"]);
  counts.stable_bad = count_in(value["stable_bad"]);
  if (counts.candidate_bad > counts.candidate || counts.stable_bad > counts.stable) throw Damaged();
  return counts;
}

/// A file of an earlier weir has none.
ro::Drawn drawn_in(element standing, std::string_view key) {
  const auto value = standing[key];
  if (value.error() == simdjson::NO_SUCH_FIELD) return {};
  return {count_in(value["candidate"]), count_in(value["stable"])};
}

/// Only a state with this share is written.
bool is_share_of(ro::State state, double share) {
  switch (state) {
    case ro::State::live:
      return share > 0 && share < 1;
    case ro::State::paused:
      return share < 1;
    case ro::State::done:
      return share == 1;
    case ro::State::idle:
    case ro::State::shadow:
    case ro::State::returned:
    case ro::State::aborted:
      break;
  }
  return share == 0;
}

ro::Standing standing_in(element value) {
  ro::Standing standing;
  const auto* const state = std::ranges::find(ro::state_names, value["state"].get_string().value());
  if (state == ro::state_names.end()) throw Damaged();
  standing.state = static_cast<ro::State>(state - ro::state_names.begin());
  standing.share = amount_in(value["share"]);
  if (!is_share_of(standing.state, standing.share)) throw Damaged();
  standing.in_step = amount_in(value["in_step_seconds"]);
  standing.unknown = amount_in(value["unknown_seconds"]);
  standing.shadow_passed = value["shadow_passed"].get_bool();
  standing.failures = counts_in(value["failures"]);
  standing.misses = counts_in(value["misses"]);
  standing.refusals = drawn_in(value, "refusals");
  standing.hangs = drawn_in(value, "hangs");
  standing.why = value["why"].get_string().value();
  return standing;
}

}  // namespace

std::string text_of(const KeptRollouts& kept) {
  metrics::wire::JsonWriter json;
  json.open('{').key("conversation_key").known_text(kept.conversation_key ? text_of(*kept.conversation_key) : "");
  json.key("rollouts").open('[');
  for (const auto& [name, rollout] : kept.rollouts) {
    const auto& standing = rollout.standing;
    json.open('{').key("name").text(name).key("pool").text(rollout.pool).key("candidate").text(rollout.candidate);
    json.key("state").text(ro::name_of(standing.state)).key("share").exact(standing.share);
    json.key("in_step_seconds").exact(standing.in_step).key("unknown_seconds").exact(standing.unknown);
    json.key("shadow_passed").boolean(standing.shadow_passed);
    json.key("failures");
    write_counts(json, standing.failures);
    json.key("misses");
    write_counts(json, standing.misses);
    json.key("refusals");
    write_drawn(json, standing.refusals);
    json.key("hangs");
    write_drawn(json, standing.hangs);
    json.key("why").text(standing.why).close('}');
  }
  json.close(']').close('}');
  return std::move(json).written() + "\n";
}

std::optional<KeptRollouts> rollouts_in(std::string_view text) {
  try {
    simdjson::dom::parser parser;
    const auto parsed = parser.parse(text.data(), text.size());
    KeptRollouts kept;
    if (const element key = parsed["conversation_key"]; !key.is_null())
      kept.conversation_key = key_in(key.get_string().value());
    for (const element one : parsed["rollouts"].get_array()) {
      KeptRollout rollout;
      rollout.pool = one["pool"].get_string().value();
      rollout.candidate = one["candidate"].get_string().value();
      rollout.standing = standing_in(one);
      kept.rollouts.emplace(one["name"].get_string().value(), std::move(rollout));
    }
    return kept;
  } catch (const simdjson::simdjson_error&) {
    return std::nullopt;
  } catch (const Damaged&) {
    return std::nullopt;
  }
}

KeptRollouts read_rollouts(const std::string& directory) {
  if (directory.empty()) return {};
  const auto file = file_in(directory);
  if (::access(file.c_str(), F_OK) != 0 && errno == ENOENT) return {};
  const auto text = config::read_text_file(file, file_of_state);  // A pipe would keep its reader waiting.
  if (const auto* const whole = std::get_if<std::string>(&text))
    if (auto kept = rollouts_in(*whole)) return std::move(*kept);
  const auto* const problem = std::get_if<config::Problem>(&text);
  const auto aside = file + ".damaged";
  const bool moved = std::rename(file.c_str(), aside.c_str()) == 0;
  events::error(
      events::What::rollout, "",
      "rollouts: cannot use the state in '{}'{}{}: all rollouts are idle, and their candidates get no request; "
      "see `weir rollout status`, and start them again",
      file, problem != nullptr ? " (" + problem->text + ")" : "", moved ? ", which is now '" + aside + "'" : "");
  return {};
}

std::string why_not_kept(const std::string& directory) {
  const auto trial = std::string(file_name) + ".trial";
  const auto why = write_whole(directory, trial, text_of(KeptRollouts()), 0600);
  ::unlink((directory + "/" + trial).c_str());
  return why.empty() ? "" : "the state of rollouts cannot be kept there: " + why + "; " + way_out;
}

std::optional<std::string> write_rollouts(const std::string& directory, const KeptRollouts& kept) {
  const auto why = write_whole(directory, file_name, text_of(kept), 0600);
  if (why.empty()) return std::nullopt;
  return "the state of rollouts cannot be kept in '" + directory + "' ([admin] state): " + why +
         "; " + way_out;
}

Replaced replace_rollouts(const std::string& directory, const KeptRollouts& kept) {
  if (write_over(directory, file_name, text_of(kept)).empty()) return Replaced::by_new;
  const bool gone = ::unlink(file_in(directory).c_str()) == 0 || errno == ENOENT;
  return gone ? Replaced::by_nothing : Replaced::not_at_all;
}

}  // namespace weir::proxy::control
