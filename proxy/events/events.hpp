// Events of weir and its replicas, each told once: as a line of weir's own log, and as an event that operators can ask
// for later. Both have the same words, because one call makes them from one text. A sink of spdlog would have to guess
// from the words of a line what it tells, and of whom.
//
// The ring is the process's, as the log is: the places that tell something lie in every room above this one. Any thread
// may tell. A call costs what its log line costs, and a mutex; nothing is told per request or per token.
#pragma once

#include <spdlog/spdlog.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::proxy::events {

/// The kind of an event.
enum class What : std::uint8_t {
  state,
  drain,
  failure,
  engine,
  discovery,
  reload,
  shadow,
  rollout,
  bypass,
  limit,
  log,
  certificate,
  finding,
  weir
};
inline constexpr std::array<std::string_view, 14> what_names{
    "state",   "drain", "failure", "engine", "discovery",   "reload",  "shadow",
    "rollout", "bypass", "limit",  "log",    "certificate", "finding", "weir"};
/// When an event of each kind happens, as the reference has it.
inline constexpr std::array<std::string_view, what_names.size()> about_what{
    "A replica is in another state, with the reason.",
    "A replica drains, drains no more, is drained, has left; its last requests are cut.",
    "Attempts on a replica fail, how often and why, at most once a minute; it went well again.",
    "A replica is another engine, version or model; it refuses weir's key; its page cannot be read.",
    "A name has another address; it cannot be looked up, and can again.",
    "A reload, with what it changed, or why it was refused.",
    "A shadow is on or off, and why.",
    "A rollout moved, and why.",
    "Bypass is on, or off.",
    "A limit was hit that had not been for ten minutes.",
    "The request log loses lines, takes them again, waits for a reader, is opened anew.",
    "A certificate of weir's own ends within 14 days; once a day.",
    "A finding begins or is over.",
    "weir serves, drains, cuts what is left; no replica is up; a report is in a file; an internal error."};
constexpr std::string_view name_of(What what) { return what_names[static_cast<std::size_t>(what)]; }

using Level = spdlog::level::level_enum;

struct Event {
  std::uint64_t seq = 0;  ///< The first event of a process has 1, and each later one the next number.
  std::chrono::system_clock::time_point time{};
  Level level = Level::info;
  What what = What::weir;
  std::string who;   ///< The name of a replica, shadow, pool, key or limit; "" is weir itself.
  std::string text;  ///< The log's line, without its time and level.
};

/// The last events. Thread-safe.
class Ring {
 public:
  static constexpr std::size_t most = 1000;
  /// A longer text is cut, and ends with "...". So the ring holds some 2 MB at most, and usually a tenth of that.
  static constexpr std::size_t longest_text = 2048;

  /// Gives the event its number.
  void add(Event event);

  struct Since {
    std::uint64_t first = 0, last = 0;  ///< The numbers of all that are kept; 0 if none is.
    std::uint64_t missed = 0;           ///< So many of those that were asked for are no longer kept.
    std::vector<Event> events;          ///< In order.
  };
  /// Returns the events after number `seq`, the last `limit` of them. A number beyond the last one is another
  /// process's: then all are returned.
  Since since(std::uint64_t seq, std::size_t limit = most) const;

 private:
  mutable std::mutex mutex_;
  std::deque<Event> events_;
  std::uint64_t last_ = 0;
};

/// The process's.
Ring& ring();

/// Logs the text and adds it to the process's ring.
void tell_text(What what, std::string_view who, Level level, std::string text);

template <class... Args>
void tell(What what, std::string_view who, Level level, spdlog::format_string_t<Args...> format,
          Args&&... args) {
  tell_text(what, who, level, spdlog::fmt_lib::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(What what, std::string_view who, spdlog::format_string_t<Args...> format, Args&&... args) {
  tell(what, who, Level::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(What what, std::string_view who, spdlog::format_string_t<Args...> format, Args&&... args) {
  tell(what, who, Level::warn, format, std::forward<Args>(args)...);
}
template <class... Args>
void error(What what, std::string_view who, spdlog::format_string_t<Args...> format, Args&&... args) {
  tell(what, who, Level::err, format, std::forward<Args>(args)...);
}

}  // namespace weir::proxy::events
