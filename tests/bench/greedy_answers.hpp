// Answers of a control and a candidate to the same greedy requests, as the e-process of sameness sees them: each leaves
// the primary's text at an exponential time of its own hazard, which the prompt's frailty (log-normal, deviation 1)
// multiplies for both. Answers have 150 tokens of four bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "metrics/compare/pairs/sameness.hpp"

namespace weir::bench {

/// So many divergences per 1000 tokens; and so large a share of the candidate's differs from its start.
struct Hazards {
  double control = 1, ratio = 1, from_start = 0;
};

class GreedyAnswers {
 public:
  GreedyAnswers(const Hazards& hazards, std::size_t requests, std::uint64_t seed) : answers_(2 * requests) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    for (std::size_t i = 0; i < requests; ++i) {
      const double frailty = std::exp(normal(random) - 0.5);
      leave(answers_[2 * i], -std::log1p(-uniform(random)) * 1000 / (hazards.control * frailty));
      const double behind = -std::log1p(-uniform(random)) * 1000 / (hazards.control * hazards.ratio * frailty);
      leave(answers_[2 * i + 1], uniform(random) < hazards.from_start ? 0 : behind);
      pairs_.push_back({&answers_[2 * i], &answers_[2 * i + 1], static_cast<std::int64_t>(i)});
    }
  }

  /// What the first requests tell.
  metrics::compare::pairs::Sameness after(std::size_t requests) const {
    namespace pairs = metrics::compare::pairs;
    const std::span<const pairs::Pair> first(pairs_.data(), requests);
    return sameness_of(first, pairs::Mode::control, names_, faults_of(first, names_, pairs::fault_margins));
  }

 private:
  static void leave(metrics::compare::samples::Sample& answer, double after_tokens) {
    constexpr std::uint32_t tokens = 150, bytes_of_a_token = 4, checkpoint = 64;
    answer.role = metrics::Role::shadow;
    answer.greedy = answer.served = true;
    answer.output_tokens = tokens;
    answer.output_chars = tokens * bytes_of_a_token;
    answer.same_text = after_tokens >= tokens;
    const auto common =
        answer.same_text ? tokens * bytes_of_a_token : static_cast<std::uint32_t>(after_tokens * bytes_of_a_token);
    answer.common_prefix_bytes = answer.same_text ? common : common / checkpoint * checkpoint;
  }

  std::vector<metrics::compare::samples::Sample> answers_;
  std::vector<metrics::compare::pairs::Pair> pairs_;
  metrics::compare::samples::Names names_;
};

/// After how many requests each word stood first, 0 for never; looked at whenever they have grown by 5 %.
struct FirstWords {
  std::size_t same = 0, differs = 0;

  FirstWords(const GreedyAnswers& answers, std::size_t requests) {
    using metrics::compare::pairs::Alike;
    for (std::size_t n = 20; n <= requests; n = std::max(n + 1, n * 21 / 20)) {
      const Alike word = answers.after(n).word;
      if (same == 0 && word == Alike::same) same = n;
      if (word != Alike::differs) continue;
      differs = n;  // This word stays.
      return;
    }
  }
};

}  // namespace weir::bench
