#include "proxy/serve/arrivals.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <exception>
#include <span>
#include <utility>

namespace weir::proxy::serve {

void Arrivals::add(NewClient client) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(client));
    if (std::exchange(posted_, true)) return;
  }
  post_start();
}

void Arrivals::post_start() {
  boost::asio::post(loop_, [this] { start_some(); });
}

/// A client that cannot be started takes no other client along.
void Arrivals::start_some() {
  std::array<NewClient, at_once> clients;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    for (; !waiting_.empty() && count < at_once; waiting_.pop_front()) clients[count++] = std::move(waiting_.front());
  }
  std::exception_ptr failure;
  for (auto& client : std::span(clients).first(count)) {
    try {
      start_(std::move(client));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    more = posted_ = !waiting_.empty();
  }
  if (more) post_start();
  if (failure) std::rethrow_exception(failure);
}

ConnectionCount place_connection(exchange::Shared& shared, std::span<const std::unique_ptr<exchange::Loop>> loops,
                                 std::size_t most) {
  if (shared.connections.load(std::memory_order_relaxed) >= most) return {};
  return ConnectionCount(**std::ranges::min_element(loops, {}, [](const auto& loop) {
    return loop->connections.load(std::memory_order_relaxed) + 4 * loop->streams.load(std::memory_order_relaxed);
  }));
}

}  // namespace weir::proxy::serve
