#include "lab/load/cost.hpp"

#include "lab/text.hpp"

namespace weir::lab::load {

std::optional<Cost> cost_of(const Prices& prices, const Bought& bought) {
  if (!prices.known() || bought.requests == 0 || bought.output_tokens == 0) return std::nullopt;
  const auto prompts = static_cast<double>(bought.prompt_tokens), outputs = static_cast<double>(bought.output_tokens);
  const double spent = prices.per_hour ? *prices.per_hour * bought.seconds / 3600
                                       : (prompts * prices.in.value_or(0) + outputs * prices.out.value_or(0)) / 1e6;
  return Cost{spent / static_cast<double>(bought.requests) * 1e3, spent / (prompts + outputs) * 1e6,
              spent / outputs * 1e6};
}

void print_cost(std::ostream& out, const Cost& cost) {
  out << fmt::format("Cost       {:.4g} per 1000 requests, {:.4g} per million tokens, {:.4g} per million output "
                     "tokens\n", cost.per_1000_requests, cost.per_million_tokens, cost.per_million_output_tokens);
}

void write_members(metrics::wire::JsonWriter& json, const Cost& cost) {
  json.key("cost_per_1000_requests").exact(cost.per_1000_requests);
  json.key("cost_per_million_tokens").exact(cost.per_million_tokens);
  json.key("cost_per_million_output_tokens").exact(cost.per_million_output_tokens);
}

}  // namespace weir::lab::load
