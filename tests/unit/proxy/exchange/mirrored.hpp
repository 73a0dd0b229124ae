// Clients of a ScriptedProxy whose requests are mirrored. The shadows' thread is the test: jobs that are posted to it
// wait until the test lets it work.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "proxy/exchange/mirror.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::exchange {

class Mirrored : public ::testing::Test {
 protected:
  /// Candidates are behind the proxy's third and fourth address.
  static constexpr std::size_t first_candidate = 2;

  Mirrored(config::Shadow settings, const std::vector<std::string>& candidates)
      : proxy(1, [&](config::Settings& all) {
          settings.name = "fp8";
          settings.of = "pool";
          settings.max_in_flight = 1000;
          for (const auto& name : candidates) {
            config::Replica replica;
            replica.name = replica.config = name;
            replica.url.host = "127.0.0.1";
            settings.replicas.push_back(replica);
          }
          all.shadows.push_back(settings);
        }) {
    proxy.plan[0] = {serve::says(streamed_answer())};
    proxy.shared.shadows = &shadows;
    shadows.loop().connector = proxy.connector();
    place_replicas();
  }
  /// Ends what is still under way, because nobody else would.
  ~Mirrored() override {
    shadows.end_all();
    let_shadows_work();
  }

  const fleet::ShadowRuntime& shadow() const { return *proxy.snapshot->shadows.front(); }
  /// Settings give replicas their own addresses again.
  void place_replicas() {
    const auto place = [](const fleet::PoolRuntime& pool, std::size_t first) {
      for (const auto& replica : pool.replicas)
        replica->state->address.set(boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(),
                                                                   static_cast<std::uint16_t>(1 + first++)));
    };
    place(*proxy.snapshot->pools.front(), 0);
    place(*shadow().pool, first_candidate);
  }
  /// The shadows' thread does all it has to do.
  void let_shadows_work() {
    do proxy.run();
    while (shadows.loop().context.poll() > 0 || proxy.turn());
  }

  serve::ScriptedProxy proxy;
  mutable Shadows shadows{proxy.shared, 1};
};

}  // namespace weir::proxy::exchange
