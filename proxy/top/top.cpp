#include "proxy/top/top.hpp"

#include <simdjson.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "config/address.hpp"
#include "config/controls.hpp"
#include "proxy/commands/client.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/top/screen.hpp"
#include "proxy/top/view.hpp"

namespace weir::proxy::top {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using What = Action::What;

/// weir takes its figures so often.
constexpr std::chrono::seconds every{1};
/// An answer that takes longer is none; those of an idle weir take a millisecond.
constexpr std::chrono::seconds patience{5};
constexpr std::string_view live_path = "/api/live";

/// A dumb terminal has neither colours nor a place for the cursor.
bool is_dumb() {
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) == "dumb";
}

/// https://no-color.org
bool wants_colours() {
  const char* const no = std::getenv("NO_COLOR");
  return (no == nullptr || *no == 0) && !is_dumb();
}

/// A document and its text's parser.
class Document {
 public:
  /// Throws std::runtime_error if that is no document of /api/live.
  explicit Document(const std::string& text) : came_(Clock::now()) {
    Json weir;
    if (parser_.parse(text).get(root_) != simdjson::SUCCESS || root_["weir"].get(weir) != simdjson::SUCCESS)
      throw std::runtime_error("something else than a weir that has /api/live answers there");
  }
  const Json& root() const { return root_; }
  double age() const { return std::chrono::duration<double>(Clock::now() - came_).count(); }

 private:
  simdjson::dom::parser parser_;
  Json root_;
  Clock::time_point came_;
};

std::size_t columns_of_output() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return printed_columns(std::getenv("COLUMNS"), known ? size.ws_col : 0);
}

/// A weir that has just begun has figures within a second.
commands::Answered ask_once(const commands::Admin& admin) {
  const auto end = Clock::now() + 3 * every;
  for (;;) {
    auto answered = commands::ask_admin(admin, "GET", std::string(live_path));
    if (answered.status != 503 || Clock::now() >= end) return answered;
    std::this_thread::sleep_for(every / 5);
  }
}

int print_once(const commands::Admin& admin, bool json) {
  const auto text = commands::body_of(ask_once(admin));
  if (json) {
    std::printf("%s\n", config::printable(text, config::LineFeeds::kept).c_str());
    return 0;
  }
  const Document document(text);
  const auto made = view(&document.root(), {columns_of_output(), 0}, {}, {});
  std::fputs(text_of(made.screen, ::isatty(STDOUT_FILENO) == 1 && !is_dumb() && wants_colours()).c_str(), stdout);
  return 0;
}

/// The program on a terminal: a loop on one thread that asks weir, reads keys and draws.
class Top {
 public:
  explicit Top(commands::Admin admin)
      : admin_(std::move(admin)), keys_(context_), timer_(context_), signals_(context_) {
    keys_.assign(::dup(terminal_.keys()));
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) signals_.add(signal);
  }

  /// Returns when the user ends it. Throws std::runtime_error if weir refuses the token.
  void run() {
    run_along(follow());
    run_along(take_keys());
    run_along(take_signals());
    draw();
    while (!ended_) context_.run_one();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void run_along(net::Awaitable<void> coroutine) {
    asio::co_spawn(context_, std::move(coroutine), [this](const std::exception_ptr& failure) {
      if (!failure) return;
      failure_ = failure;
      ended_ = true;
    });
  }

  /// Asks weir once a second, whatever becomes of it.
  net::Awaitable<void> follow() {
    boost::system::error_code ignored;
    for (;;) {
      const auto begin = Clock::now();
      const auto asked = co_await commands::answer_of(admin_, "GET", std::string(live_path), "", patience);
      take(asked);
      draw();
      timer_.expires_at(std::max(begin + every, Clock::now() + every / 10));
      co_await timer_.async_wait(asio::redirect_error(net::use_awaitable, ignored));
    }
  }

  void take(const commands::AdminReply& asked) {
    if (!asked.why_none.empty()) {
      trouble_ = asked.why_none;
      return;
    }
    const auto status = asked.answered.status;
    if (status == 401 || status == 403) throw std::runtime_error(commands::error_message(asked.answered));
    if (status != 200) {
      trouble_ = commands::error_message(asked.answered);
      return;
    }
    try {
      document_.emplace(asked.answered.body);
      trouble_.clear();
    } catch (const std::exception& error) {
      trouble_ = error.what();
    }
  }

  net::Awaitable<void> take_keys() {
    std::array<char, 256> bytes{};
    std::string typed;
    for (;;) {
      boost::system::error_code failed;
      const auto size =
          co_await keys_.async_read_some(asio::buffer(bytes), asio::redirect_error(net::use_awaitable, failed));
      if (failed) {
        ended_ = true;
        co_return;
      }
      typed.append(bytes.data(), size);
      const auto whole = whole_presses(typed, size == bytes.size());
      for (const auto one : presses_of(std::string_view(typed).substr(0, whole))) act(press(state_, one, shown_));
      typed.erase(0, whole);
      draw();
    }
  }

  void act(const Action& action) {
    switch (action.what) {
      case What::none:
        break;
      case What::quit:
        ended_ = true;
        break;
      case What::suspend:
        terminal_.suspend();
        drawn_.clear();
        break;
      case What::redraw:
        drawn_.clear();
        break;
      case What::drain:
        run_along(change(action.replica, "drain"));
        break;
      case What::undrain:
        run_along(change(action.replica, "undrain"));
        break;
    }
  }

  net::Awaitable<void> change(std::string replica, std::string what) {
    state_.message = what + " " + replica + ": asking weir";
    draw();
    const auto path = "/api/replicas/" + replica + "/" + what;
    const auto asked = co_await commands::answer_of(admin_, "POST", path, "{}", patience);
    if (!asked.why_none.empty())
      state_.message = asked.why_none;
    else if (asked.answered.status != 200)
      state_.message = "weir did not do it: " + commands::error_message(asked.answered);
    else
      state_.message = what + " " + replica + ": done";
    draw();
  }

  net::Awaitable<void> take_signals() {
    for (;;) {
      const int signal = co_await signals_.async_wait(net::use_awaitable);
      if (signal == SIGWINCH)
        draw();
      else
        ended_ = true;
    }
  }

  void draw() {
    Standing standing{trouble_};
    if (document_) standing.old = document_->age();
    if (!document_ && trouble_.empty()) standing.trouble = "asking weir at " + config::to_text(admin_.address);
    auto made = view(document_ ? &document_->root() : nullptr, terminal_.size(), state_, standing);
    shown_ = std::move(made.shown);
    if (!terminal_.write(difference(drawn_, made.screen, colours_))) ended_ = true;
    drawn_ = std::move(made.screen);
  }

  const commands::Admin admin_;
  const bool colours_ = wants_colours();
  Terminal terminal_;
  asio::io_context context_{1};
  asio::posix::basic_stream_descriptor<asio::io_context::executor_type> keys_;
  net::Timer timer_;
  asio::basic_signal_set<asio::io_context::executor_type> signals_;
  std::optional<Document> document_;
  std::string trouble_;
  State state_;
  Shown shown_;
  Screen drawn_;
  std::exception_ptr failure_;
  bool ended_ = false;
};

}  // namespace

int top(const TopOptions& options) {
  return commands::run_command("top", [&] {
    const auto admin = commands::admin_at(options.admin);
    const bool has_screen = ::isatty(STDOUT_FILENO) == 1 && !is_dumb();
    if (options.once || !has_screen) return print_once(admin, options.json);
    Top(admin).run();
    return 0;
  });
}

int status(const TopOptions& options) {
  return commands::run_command("status", [&] { return print_once(commands::admin_at(options.admin), options.json); });
}

}  // namespace weir::proxy::top
