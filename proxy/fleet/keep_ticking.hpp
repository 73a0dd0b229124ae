// The control thread's workers look at every replica again and again.
#pragma once

#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <memory>

#include "proxy/net/awaitable.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {

/// Calls tick() every `every` until the context stops. The coroutine owns the worker.
template <class Worker>
net::Awaitable<void> keep_ticking(std::shared_ptr<Worker> worker, std::chrono::milliseconds every) {
  const auto executor = co_await boost::asio::this_coro::executor;
  net::Timer timer(executor);
  for (;;) {
    worker->tick();
    timer.expires_after(every);
    co_await timer.async_wait(net::use_awaitable);
  }
}

}  // namespace weir::proxy::fleet
