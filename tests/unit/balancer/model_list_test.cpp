#include "balancer/model_list.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weir::balancer {
namespace {

ModelList list_of(std::vector<ModelId> ids) { return std::make_shared<const std::vector<ModelId>>(std::move(ids)); }

TEST(ModelId, IsZeroForNoNameAloneAndGoesByTheFirst128Bytes) {
  EXPECT_EQ(model_id(""), 0u);
  EXPECT_NE(model_id("m"), 0u);
  EXPECT_NE(model_id("m"), model_id("M"));
  const std::string cut(128, 'm');
  EXPECT_EQ(model_id(cut + "tail"), model_id(cut));
  EXPECT_NE(model_id(cut), model_id(cut.substr(1)));
}

TEST(ListedModels, AnUnknownListNeitherHasNorLacksAModel) {
  ListedModels models;
  EXPECT_FALSE(models.is_known());
  EXPECT_FALSE(models.has(1));
  EXPECT_FALSE(models.lacks(1));
}

TEST(ListedModels, WhatAnAnswerTeachesHoldsUntilTheListChanges) {
  ListedModels models;
  EXPECT_TRUE(models.set(list_of({1, 3})));
  EXPECT_TRUE(models.has(3));
  EXPECT_FALSE(models.has(2));
  EXPECT_TRUE(models.lacks(2));
  models.answered(2);
  EXPECT_FALSE(models.lacks(2));
  EXPECT_FALSE(models.has(2)) << "an engine that takes any name shows nothing of the others";
  EXPECT_FALSE(models.set(list_of({1, 3}))) << "the same list";
  EXPECT_FALSE(models.lacks(2));
  EXPECT_TRUE(models.set(list_of({1})));
  EXPECT_TRUE(models.lacks(2));
  EXPECT_TRUE(models.set(nullptr));
  EXPECT_FALSE(models.lacks(2));
}

TEST(ListedModels, ManyNamesThatAreAnsweredPushOutTheOldestOfThemAndNoneOfTheList) {
  ListedModels models;
  models.set(list_of({1}));
  for (ModelId model = 2; model < 11; ++model) {
    models.answered(model);
    models.answered(1);
    models.answered(model);
  }
  EXPECT_TRUE(models.lacks(2));
  EXPECT_FALSE(models.lacks(3));
  EXPECT_FALSE(models.lacks(10));
  EXPECT_TRUE(models.has(1));
}

}  // namespace
}  // namespace weir::balancer
