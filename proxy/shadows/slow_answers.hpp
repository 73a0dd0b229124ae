// A thread for work that would hold up the control thread: comparisons of all the samples that there are, and the
// freeing of old settings with thousands of keys.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace weir::proxy::shadows {

/// Makes the calling thread as nice as this, and not the process: on Linux a thread has a niceness of its own.
inline void be_nice(int niceness) { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness); }

/// Makes answers that take long on a thread of its own, one after the other. The control thread uses it.
class SlowAnswers {
 public:
  /// So many may wait; each holds a copy of all samples.
  static constexpr std::size_t most = 4;
  /// The thread yields to the stream loops.
  static constexpr int niceness = 10;

  explicit SlowAnswers(boost::asio::io_context& context) : context_(context) {
    boost::asio::post(thread_, [] { be_nice(niceness); });
  }

  std::size_t under_way() const { return under_way_; }
  bool is_full() const { return under_way_ >= most; }

  /// Calls `to_make` on the thread, and completes on the context with what it returned: void(std::shared_ptr<Answer>).
  /// Completes with null where it threw.
  template <class Make, class Token>
  auto make(Make to_make, Token&& token) {
    using Answer = std::invoke_result_t<Make&>;
    return boost::asio::async_initiate<Token, void(std::shared_ptr<Answer>)>(
        [this](auto handler, Make make_it) {
          // A function has to be copyable, and a handler need not be.
          auto kept = std::make_shared<decltype(handler)>(std::move(handler));
          boost::asio::post(thread_, [this, kept, make_it = std::move(make_it)]() mutable {
            std::shared_ptr<Answer> made;
            try {
              made = std::make_shared<Answer>(make_it());
            } catch (const std::exception&) {
              // Nobody on this thread would catch it.
            }
            boost::asio::post(context_, [this, kept, made] {
              --under_way_;
              std::move (*kept)(made);
            });
          });
          ++under_way_;
        },
        token, std::move(to_make));
  }

  /// Frees an object on the thread, unless another place has it too.
  void free(std::shared_ptr<const void> old) {
    boost::asio::post(thread_, [old = std::move(old)]() mutable { old.reset(); });
  }

 private:
  boost::asio::io_context& context_;
  std::size_t under_way_ = 0;
  boost::asio::thread_pool thread_{1};
};

}  // namespace weir::proxy::shadows
