#include "proxy/fleet/resolver.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <vector>

#include "proxy/net/awaitable.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

constexpr std::chrono::seconds look_up_every{30};

net::Awaitable<void> keep_resolving(std::vector<ReplicaRuntime*> named) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::basic_resolver<tcp, asio::io_context::executor_type> resolver(executor);
  net::Timer timer(executor);
  for (;;) {
    for (auto* replica : named) {
      const auto& url = replica->settings.url;
      const auto port = std::to_string(url.port);
      boost::system::error_code error;
      auto token = asio::redirect_error(net::use_awaitable, error);
      const auto found = co_await resolver.async_resolve(url.host, port, token);
      if (error || found.empty()) {
        spdlog::warn("replica '{}': cannot resolve '{}': {}", replica->settings.name, url.host, error.message());
      } else {
        replica->address.set(found.begin()->endpoint());
      }
    }
    timer.expires_after(look_up_every);
    co_await timer.async_wait(net::use_awaitable);
  }
}

}  // namespace

void start_resolver(asio::io_context& context, Fleet& fleet) {
  std::vector<ReplicaRuntime*> named;
  for (const auto& pool : fleet.pools()) {
    for (const auto& replica : pool->replicas) {
      boost::system::error_code error;
      const auto address = asio::ip::make_address(replica->settings.url.host, error);
      if (error) {
        named.push_back(replica.get());
      } else {
        replica->address.set(tcp::endpoint(address, replica->settings.url.port));
      }
    }
  }
  if (!named.empty()) asio::co_spawn(context, keep_resolving(std::move(named)), asio::detached);
}

}  // namespace weir::proxy::fleet
