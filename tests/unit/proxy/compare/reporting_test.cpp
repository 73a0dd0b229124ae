#include "proxy/compare/reporting.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::compare {
namespace {

namespace mc = metrics::compare;

class KvTokens : public ::testing::Test {
 protected:
  void mirror(const char* replica, const char* config) {
    mc::samples::Sample sample;
    sample.role = metrics::Role::shadow;
    sample.replica = names_.of(replica);
    sample.config = names_.of(config);
    read_.mirrored.add(sample);
  }
  std::optional<std::uint64_t> of(const char* config) {
    return kv_tokens_of({mc::sides::By::config, names_.of(config), metrics::Role::primary, {}}, read_, names_,
                        request_);
  }

  mc::samples::Names names_;
  ReadSamples read_;
  Request request_;
};

TEST_F(KvTokens, OfTheReplicasOfASideAreAddedUp) {
  request_.kv_tokens = {{"cand0", 300}, {"cand1", 200}, {"other", 1000}};
  mirror("cand0", "fp8");
  mirror("cand1", "fp8");
  mirror("other", "int4");
  EXPECT_EQ(of("fp8"), 500u);
  EXPECT_EQ(of("int4"), 1000u);
}

TEST_F(KvTokens, AreThoseOfTheConfigurationWhereTheReplicaIsAnAddressOfAName) {
  request_.kv_tokens = {{"fp8", 300}};
  mirror("cand-1", "fp8");
  mirror("cand-2", "fp8");
  EXPECT_EQ(of("fp8"), 600u);
}

TEST_F(KvTokens, AreUnknownIfThoseOfOneReplicaAre) {
  request_.kv_tokens = {{"cand0", 300}};
  mirror("cand0", "fp8");
  mirror("cand1", "fp8");
  EXPECT_EQ(of("fp8"), std::nullopt);
}

}  // namespace
}  // namespace weir::proxy::compare
