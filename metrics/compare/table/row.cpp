#include "metrics/compare/table/row.hpp"

namespace weir::metrics::compare::table {
namespace {

using pairs::Quantity;
using statistics::Figure;
using statistics::RatioSums;

Quantity quantity_of(Figure figure) {
  switch (figure) {
    case Figure::ttft:
    case Figure::ttft_geomean:
      return Quantity::ttft;
    case Figure::tpot:
    case Figure::tpot_geomean:
      return Quantity::tpot;
    case Figure::e2e:
      return Quantity::e2e;
    case Figure::output_tokens:
    case Figure::stalls:
      break;
  }
  return Quantity::output_tokens;
}

RatioSums weighed(const RatioSums& sums) {
  const auto [a, b, count_a, count_b] = sums;
  if (count_a <= 0 || count_b <= 0) return {};
  const double weight_a = count_b / (count_a + count_b), weight_b = count_a / (count_a + count_b);
  return {a * weight_a, b * weight_b, count_a * weight_a, count_b * weight_b};
}

}  // namespace

RatioSums Row::of(Figure figure) const { return weighed(unweighted(figure)); }

RatioSums Row::squares(Figure figure) const {
  if (figure != Figure::ttft && figure != Figure::tpot && figure != Figure::e2e) return {};
  const Sums& one = sums[static_cast<std::size_t>(quantity_of(figure))];
  return weighed({static_cast<double>(one.square_a), static_cast<double>(one.square_b),
                  static_cast<double>(one.count_a), static_cast<double>(one.count_b)});
}

RatioSums Row::unweighted(Figure figure) const {
  if (figure == Figure::stalls) {
    constexpr double thousand = 1000;
    return {thousand * static_cast<double>(stalled_a), thousand * static_cast<double>(stalled_b),
            static_cast<double>(requests_a), static_cast<double>(requests_b)};
  }
  const Sums& one = sums[static_cast<std::size_t>(quantity_of(figure))];
  const bool logs = figure == Figure::ttft_geomean || figure == Figure::tpot_geomean;
  return {static_cast<double>(logs ? one.log_a : one.a), static_cast<double>(logs ? one.log_b : one.b),
          static_cast<double>(one.count_a), static_cast<double>(one.count_b)};
}

}  // namespace weir::metrics::compare::table
