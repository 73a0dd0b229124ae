// Estimates how many tokens a prompt has, without a tokenizer, and learns from the usage that replicas report.
//
// Weights (token_weights.hpp) are learned per (model, API), per model, per API and for the pool (per_model.hpp). A new
// model starts from what its neighbours have taught; a model that has been answered five times uses its own weights.
//
// Prompts given as token ids are counted. An image has a fixed cost. Requests with either teach nothing, nor do
// requests to which the engine adds what it has kept. If a body was not understood, its prompt is unknown, and the mean
// of the last 1000 known prompts replaces it.
//
// A Pool owns it and calls it under its mutex. An estimate costs well under a microsecond, and so does learning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "balancer/per_model.hpp"
#include "balancer/token_weights.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

class TokenEstimator {
 public:
  static constexpr Tokens image_tokens = 1000;        ///< Vision encoders give one image 256 to 2000.
  static constexpr Tokens unknown_before_any = 2048;  ///< An unknown prompt counts so much while no prompt is known.
  static constexpr std::size_t remembered_prompts = 1000;

  struct Estimate {
    Tokens tokens = 0;
    bool known = true;  ///< If false, `tokens` is only the mean of other prompts.
  };

  Estimate estimate(const metrics::wire::RequestFacts& facts) const;

  /// The caller gives successful answers only. `prompt_tokens` is the replica's own count, if it reported one.
  void learn(const metrics::wire::RequestFacts& facts, std::optional<Tokens> prompt_tokens);

 private:
  double text_tokens(const metrics::wire::RequestFacts& facts) const;
  void remember(Tokens prompt);

  PerModel<TokenWeights> learned_;
  std::vector<Tokens> recent_;  ///< A ring, once it is full.
  std::size_t oldest_ = 0;
  Tokens recent_sum_ = 0;
};

}  // namespace weir::balancer
