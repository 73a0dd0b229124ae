#include "proxy/rollout/rollout_file.hpp"

#include <fcntl.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <future>
#include <utility>
#include <variant>

#include "balancer/rollout/machine.hpp"
#include "config/keys.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::rollout {
namespace {

namespace ro = balancer::rollout;
using simdjson::dom::element;

constexpr std::string_view file_name = "rollouts.json";

constexpr config::KindOfFile file_of_state{"rollouts", file_name, 16};

constexpr auto way_out = "make it a directory that weir's user may write and that has room";

std::string file_in(const std::string& directory) { return directory + "/" + std::string(file_name); }

std::string text_of(const metrics::SipKey& key) { return fmt::format("{:016x}{:016x}", key[0], key[1]); }

std::optional<metrics::SipKey> key_in(std::string_view hex) {
  metrics::SipKey key{};
  if (hex.size() != 32) return std::nullopt;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const auto* const end = hex.data() + 16 * (i + 1);
    if (std::from_chars(hex.data() + 16 * i, end, key[i], 16).ptr != end) return std::nullopt;
  }
  return key;
}

/// True if a step of the rollout may end by itself.
bool goes_on(const ro::Standing& standing) {
  return standing.state == ro::State::shadow || standing.state == ro::State::live;
}

/// True if a candidate has more in `kept` than in `latest`: requests, or a step that may end.
bool gives_more(const KeptRollouts& kept, const KeptRollouts& latest) {
  return std::ranges::any_of(kept.rollouts, [&](const auto& one) {
    const auto found = latest.rollouts.find(one.first);
    const auto now = found == latest.rollouts.end() ? ro::Standing() : found->second.standing;
    const auto& before = one.second.standing;
    return before.share > now.share || (goes_on(before) && !goes_on(now));
  });
}

}  // namespace

std::string text_of(const KeptRollouts& kept) {
  metrics::wire::JsonWriter json;
  json.open('{').key("conversation_key").known_text(kept.conversation_key ? text_of(*kept.conversation_key) : "");
  json.key("rollouts").open('[');
  for (const auto& [name, rollout] : kept.rollouts) {
    json.open('{').key("name").text(name).key("pool").text(rollout.pool).key("candidate").text(rollout.candidate);
    ro::write_standing(json, rollout.standing);
    json.close('}');
  }
  json.close(']').close('}');
  return std::move(json).written() + "\n";
}

std::optional<KeptRollouts> rollouts_in(std::string_view text) {
  try {
    simdjson::dom::parser parser;
    const auto parsed = parser.parse(text.data(), text.size());
    KeptRollouts kept;
    if (const element key = parsed["conversation_key"]; !key.is_null()) {
      kept.conversation_key = key_in(key.get_string().value());
      if (!kept.conversation_key) return std::nullopt;
    }
    for (const element one : parsed["rollouts"].get_array()) {
      KeptRollout rollout;
      rollout.pool = one["pool"].get_string().value();
      rollout.candidate = one["candidate"].get_string().value();
      auto standing = ro::standing_in(one);
      if (!standing) return std::nullopt;
      rollout.standing = *std::move(standing);
      kept.rollouts.emplace(one["name"].get_string().value(), std::move(rollout));
    }
    return kept;
  } catch (const simdjson::simdjson_error&) {
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
  return "the state of rollouts cannot be kept in '" + directory + "' ([admin] state): " + why + "; " + way_out;
}

RolloutWriter::RolloutWriter(boost::asio::io_context& context, KeptRollouts kept, Tell tell)
    : context_(context), tell_(std::make_shared<Tell>(std::move(tell))), kept_(std::move(kept)) {}

void RolloutWriter::write(std::string directory, KeptRollouts latest) {
  next_ = Wanted{std::move(directory), std::move(latest)};
  if (!is_busy()) begin();
}

void RolloutWriter::begin() {
  const auto told = [this, tell = std::weak_ptr(tell_)](const std::string& error) {
    const auto alive = tell.lock();
    if (!alive) return;
    --under_way_;
    (*alive)(error);
    if (next_ && !is_busy()) begin();
  };
  ++under_way_;
  boost::asio::post(thread_, [this, told, wanted = *std::exchange(next_, std::nullopt),
                              work = boost::asio::make_work_guard(context_)] {
    boost::asio::post(context_, [told, error = keep(wanted)] { told(error); });
  });
}

void RolloutWriter::wait() {
  if (next_) begin();
  std::promise<void> tried;
  boost::asio::post(thread_, [&tried] { tried.set_value(); });
  tried.get_future().wait();
}

std::string RolloutWriter::keep(Wanted wanted) {
  // Without a directory the last rollout has left the settings.
  auto error = wanted.directory.empty() ? "" : write_rollouts(wanted.directory, wanted.kept).value_or("");
  if (error.empty()) {
    kept_ = std::move(wanted.kept);
  } else if (gives_more(kept_, wanted.kept)) {
    if (write_over(wanted.directory, file_name, text_of(wanted.kept)).empty()) {
      kept_ = std::move(wanted.kept);
    } else if (::unlink(file_in(wanted.directory).c_str()) == 0 || errno == ENOENT) {
      kept_.rollouts.clear();
      error += "; a restart would find all rollouts idle";
    } else {
      error += "; a restart would find the rollouts as they were before";
    }
  }
  return error;
}

namespace {

/// Returns "" or why the bytes are not all on the disk. `how` is added to the flags of opening.
std::string write_all(const std::string& file, std::string_view text, int how, mode_t mode) {
  // A pipe without a reader would keep its writer waiting.
  const net::UniqueFd out(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | how, mode));
  if (out.get() < 0) return std::strerror(errno);
  const auto size = static_cast<off_t>(text.size());
  while (!text.empty()) {
    const auto written = ::write(out.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::strerror(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::ftruncate(out.get(), size) == 0 && ::fsync(out.get()) == 0 ? "" : std::strerror(errno);
}

}  // namespace

std::string write_whole(const std::string& directory, std::string_view name, std::string_view text, mode_t mode) {
  const auto file = directory + "/" + std::string(name), next = file + ".new";
  auto why = write_all(next, text, O_CREAT | O_TRUNC, mode);
  if (why.empty() && std::rename(next.c_str(), file.c_str()) != 0) why = std::strerror(errno);
  if (!why.empty()) {
    ::unlink(next.c_str());
    return why;
  }
  const net::UniqueFd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.get() < 0 || ::fsync(folder.get()) != 0 ? std::strerror(errno) : "";
}

std::string write_over(const std::string& directory, std::string_view name, std::string_view text) {
  return write_all(directory + "/" + std::string(name), text, 0, 0);
}

}  // namespace weir::proxy::rollout
