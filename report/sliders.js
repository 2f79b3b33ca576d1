// Shows, under each group of sliders, the template of the values that they stand at: the last slider varies fastest.
document.querySelectorAll(".sliders").forEach(box => {
  const sliders = [...box.querySelectorAll("input, select")], choices = box.querySelectorAll("template");
  const show = () => {
    let place = 0;
    sliders.forEach(slider => {
      const values = JSON.parse(slider.dataset.values), value = values[slider.value];
      place = place * values.length + Number(slider.value);
      if (slider.type === "range") {  // a list of names says itself which one it stands at
        slider.nextElementSibling.textContent = value;
        slider.setAttribute("aria-valuetext", value);
      }
    });
    box.querySelector(".choice").replaceChildren(choices[place].content.cloneNode(true));
  };
  sliders.forEach(slider => slider.addEventListener("input", show));
  show();
});
