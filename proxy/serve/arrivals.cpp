#include "proxy/serve/arrivals.hpp"

#include <boost/asio/post.hpp>
#include <vector>

namespace weir::proxy::serve {

void Arrivals::add(NewClient client) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(client));
  if (waiting_.size() == 1) boost::asio::post(loop_, [this] { start_some(); });
}

void Arrivals::start_some() {
  std::vector<NewClient> clients;
  {
    const std::lock_guard lock(mutex_);
    for (; !waiting_.empty() && clients.size() < at_once; waiting_.pop_front())
      clients.push_back(std::move(waiting_.front()));
    if (!waiting_.empty()) boost::asio::post(loop_, [this] { start_some(); });
  }
  for (auto& client : clients) start_(std::move(client));
}

}  // namespace weir::proxy::serve
