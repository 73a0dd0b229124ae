// Takes over changed settings while weir runs: the whole new settings, or nothing. It holds the settings as read.
//
// A thread of its own reads the file, compares it and makes the index of its keys, because the control thread accepts
// connections meanwhile. All else is on the control thread. There is one reload at a time.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/load.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/request_log.hpp"
#include "proxy/keys/client_keys.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::admin {

class Reload {
 public:
  struct Result {
    enum class Kind : unsigned char {
      done,
      failed,   ///< The settings cannot be used: `errors` says all that is wrong. Nothing has changed.
      busy,     ///< Another one is under way.
      refused,  ///< weir ends.
    };
    Kind kind = Kind::done;
    std::vector<std::string> changes;
    std::vector<std::string> errors;
  };
  using Told = std::shared_ptr<const Result>;

  /// Reads the settings, on any thread. If it throws, the reload fails.
  using Load = std::function<config::LoadResult()>;
  using Keys = std::shared_ptr<const keys::ClientKeys>;
  /// Makes the clients' keys of these settings, on any thread. If it throws, the reload fails.
  using Index = std::function<Keys(const config::Server&)>;
  /// Takes the settings and their keys over. Returns why that cannot be; then nothing has changed.
  using Take = std::function<std::vector<std::string>(const config::Settings&, Keys)>;
  /// Frees an object elsewhere than on the control thread.
  using Free = std::function<void(std::shared_ptr<const void>)>;
  /// The log has so many changes or errors of one reload, and the number of the others.
  static constexpr std::size_t logged = 100;
  /// The thread that reads yields to the loops.
  static constexpr int niceness = 5;

  Reload(boost::asio::io_context& context, config::Settings settings, Load load, Index index, Take take, Free free);
  ~Reload();
  Reload(const Reload&) = delete;
  Reload& operator=(const Reload&) = delete;

  const config::Settings& settings() const { return settings_; }
  std::function<void()> on_begin;                ///< Called before the file is read.
  std::function<void(const Result&)> on_result;  ///< Called at the end, not for a reload that did not begin.
  /// Starts the thread that reads the file. It throws std::system_error where the system gives no thread.
  std::function<std::thread(std::function<void()>)> start_thread = [](auto work) {
    return std::thread(std::move(work));
  };

  /// Reloads, and completes with the result: void(Told). `by` is for the log: who wanted it.
  template <class Token>
  auto run(std::string by, Token&& token) {
    return boost::asio::async_initiate<Token, void(Told)>(
        [this, by = std::move(by)](auto handler) {
          net::Completion<Told> completion;
          completion.keep(std::move(handler));
          begin(by, std::move(completion));
        },
        token);
  }
  /// Reloads; at once, or after the one that is under way, which may have read the file before it was changed.
  void run_or_again(const std::string& by);
  /// There is none from now on, for this reason.
  void forbid(std::string why) { forbidden_ = std::move(why); }

 private:
  void begin(const std::string& by, net::Completion<Told> completion);
  /// The findings of the loading thread: the settings and what they change, or why they cannot be used.
  struct Found {
    std::vector<std::string> errors, changes;
    config::Settings wanted;
    Keys keys;
  };
  void find(Found& found) const;
  void read_into(Found& found) const;
  void loaded(Found& found);
  Result take_over(Found& found);
  void end(const Result& result);
  void log(const Result& result) const;

  boost::asio::io_context& context_;
  config::Settings settings_;
  const Load load_;
  const Index index_;
  const Take take_;
  const Free free_;
  std::string forbidden_;
  std::thread loading_;
  bool under_way_ = false;
  std::string by_;
  std::string again_;  ///< Another reload is wanted after this one, by this.
  net::Completion<Told> completion_;
};

// Tells the operator, in weir's own log, what becomes of the request log: that lines are lost, how many and why; that
// the file takes them again; that its pipe waits for a reader. While lines are lost it is said once a minute, so that a
// full disk does not fill another one. No clock is read here.

class LogWatch {
 public:
  static constexpr std::chrono::seconds said_every{60};
  /// Lines are no longer lost once some were written and for so long none was lost.
  static constexpr std::chrono::seconds over_after{5};

  struct Said {
    bool warns = true;
    std::string text;
  };
  using Account = metrics::record::RequestLog::Account;
  /// Returns what there is to say now. To be called often; `file` is log.requests.
  std::optional<Said> tick(const Account& account, const std::string& file, metrics::Moment now);
  /// Returns what is still to be said when weir ends, however lately the last was said.
  std::optional<Said> last(const Account& account, const std::string& file) const;
  bool loses() const { return loses_; }

 private:
  std::optional<Said> about_its_reader(bool waits, const std::string& file);

  bool loses_ = false, waits_ = false;
  std::uint64_t dropped_ = 0, told_ = 0, before_ = 0;  ///< Lost by now; of these, said; lost before it began to lose.
  std::uint64_t written_ = 0;                          ///< When the last loss was seen.
  metrics::Moment last_loss_{};
  std::optional<metrics::Moment> said_at_;
};

/// Why the file did not take the lines, in a clause.
std::string why_lost(const LogWatch::Account& account);

}  // namespace weir::proxy::admin
