// Keeps the handler of one asynchronous operation of weir's own until there is something to tell it.
//
// boost::asio::any_completion_handler would do, but that of Boost 1.81 corrupted the heap: when std::exchange moved out
// of a handler, it was wrapped in another of its kind.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <new>
#include <utility>

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

}  // namespace weir::proxy::net
