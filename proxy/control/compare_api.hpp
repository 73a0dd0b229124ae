// GET /api/compare: the comparison of `weir compare`, of the last requests that this weir has had.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "proxy/control/api.hpp"
#include "proxy/control/history.hpp"
#include "proxy/fleet/world.hpp"

namespace weir::proxy::control {

/// Takes apart a query such as a=fp16&b=fp8&window=30m, and returns what makes the answer: to be called once, on any
/// thread. It holds a copy of what it needs: of 50,000 samples it takes
/// about 15 ms to make. A wrong query makes an answer that
/// says what is wrong.
std::function<ApiAnswer()> comparison(std::string_view query, const History& history, const fleet::World& world);

/// Makes answers that take long on a thread of its own, one after the other. The control thread uses it.
class SlowAnswers {
 public:
  /// So many may wait; each holds a copy of all samples.
  static constexpr std::size_t most = 4;

  explicit SlowAnswers(boost::asio::io_context& context) : context_(context) {}

  bool is_full() const { return under_way_ >= most; }

  /// Completes on the context: void(std::shared_ptr<ApiAnswer>).
  template <class Token>
  auto make(std::function<ApiAnswer()> answer, Token&& token) {
    return boost::asio::async_initiate<Token, void(std::shared_ptr<ApiAnswer>)>(
        [this](auto handler, std::function<ApiAnswer()> to_make) {
          ++under_way_;
          // A function has to be copyable, and a handler need not be.
          auto kept = std::make_shared<decltype(handler)>(std::move(handler));
          boost::asio::post(thread_, [this, kept, to_make = std::move(to_make)]() mutable {
            auto made = std::make_shared<ApiAnswer>(to_make());
            boost::asio::post(context_, [this, kept = std::move(kept), made = std::move(made)] {
              --under_way_;
              std::move (*kept)(made);
            });
          });
        },
        token, std::move(answer));
  }

 private:
  boost::asio::io_context& context_;
  std::size_t under_way_ = 0;
  boost::asio::thread_pool thread_{1};
};

}  // namespace weir::proxy::control
