#include "proxy/compare/reporting.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::compare {
namespace {

TEST(KvTokens, AreThoseOfTheReplicaAndElseOfItsConfiguration) {
  metrics::compare::samples::Names names;
  const auto held = kv_tokens_of({{"cand0", 300}, {"cand1", 200}, {"int4", 1000}}, names);
  EXPECT_EQ(held(names.of("cand0"), names.of("int4")), 300u);
  EXPECT_EQ(held(names.of("cand1"), names.of("fp8")), 200u);
  EXPECT_EQ(held(names.of("10.0.0.1:8000"), names.of("int4")), 1000u) << "it is an address of a name";
  EXPECT_EQ(held(names.of("removed"), names.of("fp8")), std::nullopt);
}

}  // namespace
}  // namespace weir::proxy::compare
