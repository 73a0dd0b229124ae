#include "lab/net/first_that_connects.hpp"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <list>
#include <optional>

namespace weir::lab::net {

using boost::asio::ip::tcp;

tcp::endpoint first_that_connects(const tcp::resolver::results_type& found) {
  boost::asio::io_context io;
  std::optional<tcp::endpoint> first;
  std::list<tcp::socket> sockets;
  std::size_t open = 0;
  const auto wait = [&](std::chrono::milliseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    while (!first && open > 0 && io.run_one_until(until) > 0) continue;
    io.restart();
  };
  for (const auto& entry : found) {
    ++open;
    sockets.emplace_back(io).async_connect(entry.endpoint(),
                                           [&, to = entry.endpoint()](const boost::system::error_code& failed) {
                                             --open;
                                             if (!failed && !first) first = to;
                                           });
    wait(std::chrono::milliseconds(250));
    if (first) break;
  }
  wait(std::chrono::seconds(5));
  return first.value_or(found.begin()->endpoint());
}

}  // namespace weir::lab::net
