// The objective by which a report's tables judge requests, if there is one.
#pragma once

#include <optional>

#include "config/settings.hpp"
#include "metrics/compare/samples/attainment.hpp"
#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::samples {

struct Objective {
  std::optional<config::Slo> slo;
  Since since = Since::arrival;

  /// Returns nothing for a request that does not count in the attainment.
  std::optional<bool> met(const Sample& sample) const {
    if (!slo) return std::nullopt;
    const auto attainment = judge(*slo, sample, since);
    if (attainment != Attainment::met && attainment != Attainment::missed) return std::nullopt;
    return attainment == Attainment::met;
  }
};

}  // namespace weir::metrics::compare::samples
