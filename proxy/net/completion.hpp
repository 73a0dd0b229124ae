// Keeps the handler of one asynchronous operation of weir's own until there is something to tell it.
//
// boost::asio::any_completion_handler would do, but that of Boost 1.81 corrupted the heap: when std::exchange moved out
// of a handler, it was wrapped in another of its kind.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <new>
#include <utility>

#include "metrics/moment.hpp"

namespace weir::proxy::net {

/// Keeps its handler within itself, so that no wait allocates.
template <class... News>
class Completion {
 public:
  Completion() = default;
  Completion(Completion&& other) noexcept { take(other); }
  Completion& operator=(Completion&& other) noexcept {
    if (this == &other) return *this;
    drop();
    take(other);
    return *this;
  }
  ~Completion() { drop(); }

  template <class Handler>
  void keep(Handler handler) {
    static_assert(sizeof(KeptHandler<Handler>) <= room && alignof(KeptHandler<Handler>) <= alignof(std::max_align_t));
    drop();
    kept_ = new (place_) KeptHandler<Handler>(std::move(handler));
  }
  explicit operator bool() const { return kept_ != nullptr; }

  /// Tells the handler within this call, which may end the operation's object.
  void resume(News... news) { std::exchange(kept_, nullptr)->resume(news...); }
  /// Tells the handler from its executor, after the current handler.
  void tell(News... news) { std::exchange(kept_, nullptr)->tell(news...); }

 private:
  static constexpr std::size_t room = 32;

  struct Kept {
    virtual ~Kept() = default;
    /// Both end this object before they tell its handler.
    virtual void resume(News... news) = 0;
    virtual void tell(News... news) = 0;
    virtual Kept* move_to(void* place) noexcept = 0;
  };
  template <class Handler>
  struct KeptHandler final : Kept {
    explicit KeptHandler(Handler h) : handler(std::move(h)) {}
    void resume(News... news) override {
      auto told = take();
      told(news...);
    }
    void tell(News... news) override {
      const auto executor = boost::asio::get_associated_executor(handler);
      boost::asio::post(executor, [told = take(), news...]() mutable { told(news...); });
    }
    Kept* move_to(void* place) noexcept override { return new (place) KeptHandler(take()); }
    Handler take() {
      auto told = std::move(handler);
      this->~KeptHandler();
      return told;
    }
    Handler handler;
  };

  void take(Completion& other) noexcept {
    if (Kept* const kept = std::exchange(other.kept_, nullptr)) kept_ = kept->move_to(place_);
  }
  void drop() noexcept {
    if (Kept* const kept = std::exchange(kept_, nullptr)) kept->~Kept();
  }

  Kept* kept_ = nullptr;  ///< In its place.
  alignas(std::max_align_t) std::byte place_[room];
};

// Every coroutine that runs on an io_context has this type.

template <class T>
using Awaitable = boost::asio::awaitable<T, boost::asio::io_context::executor_type>;
using use_awaitable_t = boost::asio::use_awaitable_t<boost::asio::io_context::executor_type>;
inline constexpr use_awaitable_t use_awaitable{};

// Everything that waits on an io_context uses this timer: it takes the context's executor without a type-erased one.

using Timer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>,
                                      boost::asio::io_context::executor_type>;

// Deadlines without timers: a time point that is moved by writing it, and that the loop's tick looks at.
//
// A tick begins a round, in which everything with a deadline has its turn once. A round goes on in portions, and others
// have their turn between two of them: thousands that end together stop no loop, and no more does the look at thousands
// that do not. A deadline is noticed at most one tick (100 ms) and one round late. Only the loop's thread uses it.

/// An object with a deadline. It is in a list from attach() until it goes.
class Timed : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  virtual metrics::Moment deadline() const = 0;  ///< Moment::max() means none.
  /// Handles the deadline. It may destroy itself and others.
  virtual void deadline_passed(metrics::Moment now) = 0;

 protected:
  ~Timed() = default;
};

class Deadlines {
 public:
  /// The end of a request takes some tens of microseconds, a look some tens of nanoseconds: a portion of either takes
  /// about as long as a batch of tokens (net/poller).
  static constexpr std::size_t handled_at_once = 16, looked_at_at_once = 1024;

  /// Lets an object have its turn from the next round on.
  void attach(Timed& timed) { all_.push_back(timed); }
  /// Begins a round, unless one is under way. Returns true if it has begun one that is not over: go_on() is to be
  /// called then, after others have had their turn, until it returns false.
  bool tick(metrics::Moment now);
  bool go_on(metrics::Moment now);

 private:
  using List = boost::intrusive::list<Timed, boost::intrusive::constant_time_size<false>>;
  List all_;
  List left_;  ///< Objects that have not had their turn in the present round.
};

}  // namespace weir::proxy::net
