// The signs that mirrored requests give of a shadow's replicas.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/proxy/exchange/mirrored.hpp"

namespace weir::proxy::exchange {
namespace {

using balancer::Sign;

class SignsOfMirrors : public Mirrored {
 protected:
  SignsOfMirrors() : Mirrored(a_sample(), {"cand0", "cand1"}) {}
  static config::Shadow a_sample() {
    config::Shadow shadow;
    shadow.sample = 1;
    return shadow;
  }
  const fleet::PoolRuntime& pool() const { return *shadow().pool; }
  /// So many requests are mirrored, whose candidates answer so. Returns how many candidates are out then.
  int out_after(int requests, bool of_one_client, const std::string& answer) {
    proxy.plan[2] = proxy.plan[3] = {serve::says(answer)};
    for (int i = 0; i < requests; ++i) {
      proxy.address.front() = static_cast<unsigned char>(of_one_client ? 0 : i);
      const auto client = proxy.client(serve::post(serve::chat(true)));
      let_shadows_work();
      EXPECT_TRUE(read_answer(client->got).whole);
      client->ends();
    }
    let_shadows_work();
    int out = 0;
    for (const auto& replica : pool().replicas)
      if (pool().balancer->health().of(replica->key, serve::Clock::now()).state == balancer::ReplicaState::ejected) ++out;
    return out;
  }

  const std::string broken = whole_answer("500 Broken", "{}");
};

TEST_F(SignsOfMirrors, ErrorsOfManyClientsEjectNobodyWhereAllFail) { EXPECT_EQ(out_after(24, false, broken), 0); }

TEST_F(SignsOfMirrors, ErrorsOfOneClientEjectNobodyWhereAllFail) { EXPECT_EQ(out_after(40, true, broken), 0); }

TEST_F(SignsOfMirrors, RefusalsAndWhatWeirLacksSayNothing) {
  EXPECT_EQ(out_after(12, false, whole_answer("422 No", "{}")), 0);
  proxy.refuses_at_once[2] = proxy.refuses_at_once[3] = EMFILE;
  EXPECT_EQ(out_after(12, false, ""), 0);
}

}  // namespace
}  // namespace weir::proxy::exchange
