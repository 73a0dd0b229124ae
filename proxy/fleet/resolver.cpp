#include "proxy/fleet/resolver.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <memory>
#include <vector>

#include "proxy/net/awaitable.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

constexpr std::chrono::seconds look_up_every{30};

bool is_named(const ReplicaRuntime& replica) {
  boost::system::error_code error;
  asio::ip::make_address(replica.settings.url.host, error);
  return static_cast<bool>(error);
}

std::vector<std::shared_ptr<ReplicaRuntime>> named_in(const World& world) {
  std::vector<std::shared_ptr<ReplicaRuntime>> named;
  for (const auto& pool : world.pools)
    for (const auto& replica : pool->replicas)
      if (is_named(*replica)) named.push_back(replica);
  return named;
}

/// Looks up all names every half a minute, and those of a new world at once.
net::Awaitable<void> keep_resolving(const Fleet& fleet) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::basic_resolver<tcp, asio::io_context::executor_type> resolver(executor);
  net::Timer timer(executor);
  auto due = std::chrono::steady_clock::time_point::min();
  std::shared_ptr<const World> last;
  for (;;) {
    const auto world = fleet.world();
    if (world != last || std::chrono::steady_clock::now() >= due) {
      last = world;
      due = std::chrono::steady_clock::now() + look_up_every;
      const auto named = named_in(*world);
      for (const auto& replica : named) {
        const auto& url = replica->settings.url;
        const auto port = std::to_string(url.port);
        boost::system::error_code error;
        auto token = asio::redirect_error(net::use_awaitable, error);
        const auto found = co_await resolver.async_resolve(url.host, port, token);
        if (error || found.empty()) {
          spdlog::warn("replica '{}': cannot resolve '{}': {}", replica->settings.name, url.host, error.message());
        } else {
          replica->state->address.set(found.begin()->endpoint());
        }
      }
    }
    timer.expires_after(look_for_a_new_world_every);
    co_await timer.async_wait(net::use_awaitable);
  }
}

}  // namespace

void start_resolver(asio::io_context& context, const Fleet& fleet) {
  asio::co_spawn(context, keep_resolving(fleet), asio::detached);
}

}  // namespace weir::proxy::fleet
