// Every fault at every phase. However a cell ends, weir is well afterwards, its books are empty and add up, and it has
// as many descriptors as before (Stage::expect_rest).
#include <gtest/gtest.h>

#include <set>

#include "tests/integration/faults/cell.hpp"
#include "tests/integration/faults/plays.hpp"

namespace weir::integration {

std::ostream& operator<<(std::ostream& out, const CellRun& run) {
  return out << name_of(run.cell.fault) << " at " << name_of(run.cell.phase);
}

namespace {

std::vector<CellRun> runs(bool clients) {
  std::vector<CellRun> all;
  for (const auto& cell : cells()) {
    if (!cell.cannot.empty() || is_clients(cell.fault) != clients) continue;
    for (const auto transport : {Transport::plain, over_tls(cell)}) {
      all.push_back({cell, Company::alone, transport});
      // Beside a replica that is well, a client with TLS gets what it gets of any replica without TLS.
      if (!cell.beside.empty() && transport != Transport::tls_client) all.push_back({cell, Company::beside, transport});
    }
  }
  return all;
}

std::string name_of_run(const ::testing::TestParamInfo<CellRun>& test) {
  const auto& run = test.param;
  return std::string(name_of(run.cell.fault)) + "_at_" + std::string(name_of(run.cell.phase)) +
         (run.company == Company::beside ? "_beside_a_replica_that_is_well" : "") +
         (run.transport == Transport::plain ? "" : "_over_" + std::string(name_of(run.transport)));
}

class ReplicasFault : public ::testing::TestWithParam<CellRun> {};

TEST_P(ReplicasFault, EndsAsItShouldAndLeavesNothing) { play_replicas_fault(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Faults, ReplicasFault, ::testing::ValuesIn(runs(false)), name_of_run);

class ClientsFault : public ::testing::TestWithParam<CellRun> {};

TEST_P(ClientsFault, EndsAsItShouldAndLeavesNothing) { play_clients_fault(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Faults, ClientsFault, ::testing::ValuesIn(runs(true)), name_of_run);

TEST(FaultMatrix, HasEveryFaultAtEveryPhaseOnce) {
  std::set<std::pair<Fault, Phase>> seen;
  for (const auto& cell : cells()) {
    SCOPED_TRACE(std::string(name_of(cell.fault)) + " at " + std::string(name_of(cell.phase)));
    EXPECT_TRUE(seen.emplace(cell.fault, cell.phase).second) << "twice";
    EXPECT_NE(cell.cannot.empty(), cell.alone.empty()) << "it has either a reason or an expectation";
  }
  EXPECT_EQ(seen.size(), faults * phases);
}

}  // namespace
}  // namespace weir::integration
