// How many tokens a prompt has, estimated without a tokenizer and learned from the usage that replicas report.
//
//   estimate = sum over scripts of w_script * code points + w_message * messages + w_constant
//
// The weights start from priors and are learned per (model, API): a multiplicative step towards the truth, in which a
// script takes part by its share of the text. A step is bounded, so one false report moves a weight by 9 % at most.
// (WIRE.md, section 5. Shares and sizes are taken in code points, which the request inspector counts, not in bytes.)
//
// Prompts given as token ids are counted. An image has a fixed cost, and such requests teach nothing. Where a body was
// not understood, the prompt is unknown and the mean of the last 1000 known ones stands for it.
//
// Owned by a Pool, under its mutex. An estimate costs well under a microsecond.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "balancer/per_model.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request.hpp"

namespace weir::balancer {

class TokenEstimator {
 public:
  static constexpr Tokens image_tokens = 1000;        ///< Vision encoders give one image 256 to 2000.
  static constexpr Tokens unknown_before_any = 2048;  ///< An unknown prompt while none is known.
  static constexpr std::size_t remembered_prompts = 1000;

  struct Estimate {
    Tokens tokens = 0;
    bool known = true;  ///< False: nothing but the mean of other prompts.
  };

  Estimate estimate(const metrics::wire::RequestFacts& facts) const;

  /// To be called for successful answers only. `prompt_tokens`: as the replica counted them, where it did.
  void learn(const metrics::wire::RequestFacts& facts, std::optional<Tokens> prompt_tokens);

 private:
  /// In the order of metrics::wire::Script.
  struct Weights {
    std::array<double, metrics::wire::script_count> script{0.25, 0.33, 0.5, 0.33, 0.5, 0.6, 0.8, 1.5};
    double message = 4;
    double constant = 10;

    double of(const metrics::wire::TextFeatures& text) const;
    void step(const metrics::wire::TextFeatures& text, double truth);
  };

  void remember(Tokens prompt);

  PerModel<Weights> learned_;
  std::vector<Tokens> recent_;  ///< A ring once it is full.
  std::size_t oldest_ = 0;
  Tokens recent_sum_ = 0;
};

}  // namespace weir::balancer
