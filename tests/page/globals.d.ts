// What classic scripts of the page define.
declare const uPlot: any;
