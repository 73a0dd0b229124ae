// Expects how many tokens an answer will have: the mean per choice of the model's earlier answers, times
// the choices asked for, and never more than the request allows. It learns per (model, API) and for the wider rows
// above that (per_model.hpp). Older answers fade over about fifty.
//
// Before anything is learned, a chat or a completion counts 256 tokens a choice. An API that weir does not read counts
// none unless the request sets a limit or the API's own answers have taught otherwise: embeddings, rerank and score
// have no output at all, whatever the model's chats have.
//
// A Pool owns it and calls it under its mutex.
#pragma once

#include <cstdint>

#include "balancer/per_model.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

class ExpectedOutput {
 public:
  static constexpr Tokens before_any = 256;

  Tokens of(const metrics::wire::RequestFacts& facts) const;

  /// The caller gives successful answers only. `output_tokens` is the sum over all choices.
  void learn(const metrics::wire::RequestFacts& facts, Tokens output_tokens);

 private:
  struct Mean {
    double tokens = 0;
    std::uint64_t answers = 0;
  };
  PerModel<Mean> learned_;
};

}  // namespace weir::balancer
