// Keeps the handler of one asynchronous operation of weir's own until there is something to tell it.
//
// boost::asio::any_completion_handler would do, but that of Boost 1.81 corrupted the heap: when std::exchange moved out
// of a handler, it was wrapped in another of its kind.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

namespace weir::proxy::net {

template <class... News>
class Completion {
 public:
  template <class Handler>
  void keep(Handler handler) {
    kept_ = std::make_unique<KeptHandler<Handler>>(std::move(handler));
  }
  explicit operator bool() const { return kept_ != nullptr; }

  /// Tells the handler within this call, which may end the operation's object.
  void resume(News... news) {
    const auto kept = std::exchange(kept_, nullptr);
    kept->resume(news...);
  }
  /// Tells the handler from its executor, after the current handler.
  void tell(News... news) {
    const auto kept = std::exchange(kept_, nullptr);
    kept->tell(news...);
  }

 private:
  struct Kept {
    virtual ~Kept() = default;
    virtual void resume(News... news) = 0;
    virtual void tell(News... news) = 0;
  };
  template <class Handler>
  struct KeptHandler final : Kept {
    explicit KeptHandler(Handler h) : handler(std::move(h)) {}
    void resume(News... news) override {
      auto told = std::move(handler);
      told(news...);
    }
    void tell(News... news) override {
      const auto executor = boost::asio::get_associated_executor(handler);
      boost::asio::post(executor, [told = std::move(handler), news...]() mutable { told(news...); });
    }
    Handler handler;
  };
  std::unique_ptr<Kept> kept_;
};

}  // namespace weir::proxy::net
