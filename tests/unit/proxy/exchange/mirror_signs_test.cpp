// The signs that mirrored requests give of a shadow's replicas.
#include <gtest/gtest.h>

#include <cerrno>

#include "proxy/exchange/shadows.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::exchange {
namespace {

using balancer::Sign;

class SignsOfMirrors : public testing::Test {
 protected:
  SignsOfMirrors() {
    proxy.plan[0] = {serve::says(serve::streamed_answer())};
    proxy.shared.shadows = &shadows;
    shadows.loop().connector = proxy.connector();
    place(*proxy.snapshot->pools.front()->replicas.front(), 1);
    for (std::uint16_t i = 0; i < 2; ++i) place(*pool().replicas[i], static_cast<std::uint16_t>(3 + i));
  }
  ~SignsOfMirrors() override {
    shadows.end_all();
    let_shadows_work();
  }

  static void place(const fleet::Replica& replica, std::uint16_t port) {
    replica.state->address.set(boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), port));
  }
  static void add_shadow(config::Settings& settings) {
    config::Shadow shadow;
    shadow.name = "fp8";
    shadow.of = "pool";
    shadow.sample = 1;
    shadow.max_in_flight = 1000;
    for (const auto* name : {"cand0", "cand1"}) {
      config::Replica replica;
      replica.name = replica.config = name;
      replica.url.host = "127.0.0.1";
      shadow.replicas.push_back(replica);
    }
    settings.shadows.push_back(shadow);
  }
  const fleet::PoolRuntime& pool() const { return *proxy.snapshot->shadows.front()->pool; }
  void let_shadows_work() {
    do proxy.run();
    while (shadows.loop().context.poll() > 0 || proxy.turn());
  }
  /// So many requests are mirrored, whose candidates answer so. Returns how many candidates are out then.
  int out_after(int requests, bool of_one_client, const std::string& answer) {
    proxy.plan[2] = proxy.plan[3] = {serve::says(answer)};
    for (int i = 0; i < requests; ++i) {
      proxy.address.front() = static_cast<unsigned char>(of_one_client ? 0 : i);
      const auto client = proxy.client(serve::post(serve::chat(true)));
      let_shadows_work();
      EXPECT_TRUE(serve::read_answer(client->got).whole);
      client->ends();
    }
    let_shadows_work();
    int out = 0;
    for (const auto& replica : pool().replicas)
      if (pool().balancer->health().of(replica->key, serve::Clock::now()).state == balancer::ReplicaState::ejected) ++out;
    return out;
  }

  serve::ScriptedProxy proxy{1, add_shadow};
  mutable Shadows shadows{proxy.shared, 1};
  const std::string broken = serve::whole_answer("500 Broken", "{}");
};

TEST_F(SignsOfMirrors, ErrorsOfManyClientsEject) {
  EXPECT_EQ(out_after(24, false, broken), 1) << "and no more than half";
}

TEST_F(SignsOfMirrors, ErrorsOfOneClientEjectNobodyWhereAllFail) { EXPECT_EQ(out_after(40, true, broken), 0); }

TEST_F(SignsOfMirrors, NobodyIsAskedASecondTimeSoErrorsAreNobodysWhileTheyAreAbout) {
  pool().balancer->health().report(pool().replicas.front()->key, Sign::absolved, serve::Clock::now());
  EXPECT_EQ(out_after(24, false, broken), 0);
}

TEST_F(SignsOfMirrors, RefusalsAndWhatWeirLacksSayNothing) {
  EXPECT_EQ(out_after(12, false, serve::whole_answer("422 No", "{}")), 0);
  proxy.refuses_at_once[2] = proxy.refuses_at_once[3] = EMFILE;
  EXPECT_EQ(out_after(12, false, ""), 0);
}

}  // namespace
}  // namespace weir::proxy::exchange
