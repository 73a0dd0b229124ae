#include "lab/experiment/experiment.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weir::lab::experiment {
namespace {

/// Returns the beginning of each prompt of a load, and the lengths of its requests.
auto prompts_of(const load::LoadSettings& load) {
  load::Workload workload(load.workload);
  std::vector<std::string> texts;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lengths;
  for (std::uint64_t i = 0; i < load.requests; ++i) {
    const auto planned = *workload.next();
    texts.push_back(workload.messages(planned).front().substr(0, 30));
    lengths.emplace_back(planned.prompt_tokens, planned.output_tokens);
  }
  return std::pair(texts, lengths);
}

Plan three_rows() {
  Plan plan;
  plan.prompts = 10;
  Row row;
  row.concurrency = 4;
  plan.rows = {row, row, row};
  return plan;
}

/// Rows may share a replica, and its prefix cache outlives a row.
TEST(Experiment, NoTwoRowsNorRepetitionsHaveAPromptInCommon) {
  const Plan plan = three_rows();
  std::multiset<std::string> all;
  for (std::size_t row = 0; row < plan.rows.size(); ++row) {
    for (std::uint64_t number = 0; number < plan.repeat; ++number) {
      const auto texts = prompts_of(load_of(plan, row, number)).first;
      all.insert(texts.begin(), texts.end());
    }
    const auto warm_up = prompts_of(warm_up_of(plan, row, 0)).first;
    EXPECT_EQ(warm_up.size(), 4u);
    all.insert(warm_up.begin(), warm_up.end());
  }
  EXPECT_EQ(all.size(), 3u * (3 * 10 + 4));
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
}

TEST(Experiment, ARepetitionAsksForWhatItsRowAndTheFileSay) {
  Plan plan = three_rows();
  plan.ignore_eos = true;
  Row& row = plan.rows[1];
  row.url = "http://h:1";
  row.model = "m";
  row.api = load::Api::completions;
  row.api_key = "k";
  for (const auto& load : {load_of(plan, 1, 2), warm_up_of(plan, 1, 2)}) {
    EXPECT_EQ(load.url, "http://h:1");
    EXPECT_EQ(load.model, "m");
    EXPECT_EQ(load.api, load::Api::completions);
    EXPECT_EQ(load.api_key, "k");
    EXPECT_EQ(load.concurrency, 4u);
    EXPECT_TRUE(load.ignore_eos && load.usage);
  }
  EXPECT_EQ(load_of(plan, 1, 2).requests, 10u);
  EXPECT_EQ(warm_up_of(plan, 1, 2).requests, 4u);
  EXPECT_FALSE(load_of(three_rows(), 0, 0).ignore_eos);
}

TEST(Experiment, AllRowsHaveTheSameLengths) {
  const Plan plan = three_rows();
  for (std::uint64_t number = 0; number < plan.repeat; ++number) {
    for (std::size_t row = 1; row < plan.rows.size(); ++row) {
      EXPECT_EQ(prompts_of(load_of(plan, row, number)).second, prompts_of(load_of(plan, 0, number)).second);
    }
  }
  EXPECT_NE(prompts_of(load_of(plan, 0, 0)).second, prompts_of(load_of(plan, 0, 1)).second);
}

}  // namespace
}  // namespace weir::lab::experiment
